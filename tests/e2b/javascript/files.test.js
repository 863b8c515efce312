import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  AuthenticationError,
  FileNotFoundError,
  FileType,
  FilesystemEventType,
  InvalidArgumentError,
  NotFoundError,
} from 'e2b'
import { routing, shared, until } from './shared.js'

const holder = shared()
const bytes = (text) => new TextEncoder().encode(text)

test('a file is written and read in every way', async () => {
  const { files } = holder.sbx
  for (const name of ['plain.txt', 'with space.txt', 'ä漢😀.txt', 'a+b&c=d%20.txt']) {
    const written = await files.write(`names/${name}`, 'hé\u2028')
    assert.deepEqual([written.name, written.type], [name, FileType.FILE])
    assert.equal(await files.read(`names/${name}`), 'hé\u2028')
  }
  const path = 'names/plain.txt'
  assert.deepEqual(await files.read(path, { format: 'bytes' }), bytes('hé\u2028'))
  assert.equal(await (await files.read(path, { format: 'blob' })).text(), 'hé\u2028')
  let streamed = ''
  const decoder = new TextDecoder()
  for await (const part of await files.read(path, { format: 'stream' })) {
    streamed += decoder.decode(part, { stream: true })
  }
  assert.equal(streamed, 'hé\u2028')
})

test('data of every kind is written', async () => {
  const { files } = holder.sbx
  const stream = () =>
    new ReadableStream({
      start(controller) {
        controller.enqueue(bytes('te'))
        controller.enqueue(bytes('xt'))
        controller.close()
      },
    })
  for (const useOctetStream of [undefined, true, false]) {
    for (const data of ['text', bytes('text').buffer, new Blob(['text']), stream()]) {
      await files.write('kinds', data, { useOctetStream })
      assert.equal(await files.read('kinds'), 'text')
    }
  }
  await files.write('empty', '')
  assert.equal(await files.read('empty'), '')
})

test('gzip goes both ways', async () => {
  const { sbx } = holder
  const data = 'compresses well '.repeat(10_000)
  await sbx.files.write('zipped', data, { gzip: true })
  assert.equal((await sbx.commands.run('wc -c < zipped')).stdout.trim(), `${data.length}`)
  assert.equal(await sbx.files.read('zipped', { gzip: true }), data)
})

test('many files are written at once', async () => {
  const { files } = holder.sbx
  for (const useOctetStream of [undefined, true, false]) {
    const entries = Array.from({ length: 20 }, (_, n) => ({ path: `batch/${n}/ä ${n}`, data: `${n}` }))
    const written = await files.write(entries, { useOctetStream })
    assert.deepEqual(written.map((it) => it.name), entries.map((_, n) => `ä ${n}`))
    assert.equal(await files.read('batch/19/ä 19'), '19')
  }
  assert.deepEqual(await files.writeFiles([]), [])
})

test('a big file goes up and down', async () => {
  const { files } = holder.sbx
  const data = new Uint8Array(30_000_000)
  for (let at = 0; at < data.length; at += 4096) data[at] = at % 251
  await files.write('big.bin', data.buffer)
  const read = await files.read('big.bin', { format: 'bytes' })
  assert.ok(Buffer.from(read).equals(Buffer.from(data)))
  await files.remove('big.bin')
})

test('folders are made, listed, renamed, removed', async () => {
  const { files } = holder.sbx
  assert.equal(await files.makeDir('tree/a/b'), true)
  assert.equal(await files.makeDir('tree/a/b'), false)
  await files.write('tree/1', 'x')
  await files.write('tree/a/2', 'x')
  const names = async (depth) => (await files.list('tree', { depth })).map((it) => it.name).sort()
  assert.deepEqual(await names(1), ['1', 'a'])
  assert.deepEqual(await names(9), ['1', '2', 'a', 'b'])
  assert.equal((await files.rename('tree/a', 'tree/c')).name, 'c')
  assert.equal(await files.exists('tree/c/2'), true)
  assert.equal(await files.exists('tree/a'), false)
  await files.remove('tree')
  assert.equal(await files.exists('tree'), false)
  await assert.rejects(files.list('tree', { depth: 0 }), InvalidArgumentError)
})

test('an entry says all about itself', async () => {
  const { sbx } = holder
  await sbx.commands.run('printf 12345 > entry; chmod 640 entry; ln -sfn entry link')
  const info = await sbx.files.getInfo('entry')
  assert.deepEqual([info.name, info.type, info.size, info.mode], ['entry', FileType.FILE, 5, 0o640])
  assert.equal(info.permissions, '-rw-r-----')
  assert.ok(Math.abs(info.modifiedTime.getTime() - Date.now()) < 60_000)
  assert.ok((await sbx.files.getInfo('link')).symlinkTarget.endsWith('/entry'))
})

test('what is not there is not found', async () => {
  const { files } = holder.sbx
  for (const call of [
    () => files.read('not/there'),
    () => files.read('not/there', { format: 'stream' }),
    () => files.list('not/there'),
    () => files.getInfo('not/there'),
    () => files.rename('not/there', 'there'),
    () => files.watchDir('not/there', () => {}),
  ]) {
    await assert.rejects(call(), FileNotFoundError)
  }
  assert.ok(new FileNotFoundError('') instanceof NotFoundError)
})

test('a folder is no file, and another user nobody', async () => {
  const { files } = holder.sbx
  await files.makeDir('a-folder')
  await assert.rejects(files.read('a-folder'), InvalidArgumentError)
  await assert.rejects(files.write('a-folder', 'x'), InvalidArgumentError)
  await assert.rejects(files.read('kinds', { user: 'root' }), AuthenticationError)
  await assert.rejects(files.list('.', { user: 'root' }), AuthenticationError)
})

test('a tree is watched', async () => {
  const { files } = holder.sbx
  await files.makeDir('watched/a')
  const events = []
  let ended = false
  const handle = await files.watchDir('watched', (event) => { events.push(event) }, {
    recursive: true,
    includeEntry: true,
    timeoutMs: 0,
    // The SDK tells of its own end as of an error.
    onExit: () => { ended = true },
  })
  await files.write('watched/a/new', 'x')
  await files.remove('watched/a/new')
  const saw = (name, type) => events.some((it) => it.name === name && it.type === type)
  const { CREATE, WRITE, REMOVE } = FilesystemEventType
  await until('all is seen', () => [CREATE, WRITE, REMOVE].every((type) => saw('a/new', type)))
  await handle.stop()
  await until('it has ended', () => ended)
})

test('signed urls work without an SDK', async () => {
  const { sbx } = holder
  const headers = routing(sbx, 49983)
  const up = await sbx.uploadUrl('signed ä', { useSignatureExpiration: 60_000 })
  const body = new FormData()
  body.append('file', new Blob(['by url']), 'ignored')
  const sent = await fetch(up, { method: 'POST', headers, body })
  assert.equal(sent.status, 200, await sent.clone().text())
  assert.equal((await sent.json())[0].name, 'signed ä')
  const down = await sbx.downloadUrl('signed ä', { useSignatureExpiration: 60_000 })
  const got = await fetch(down, { headers })
  assert.deepEqual([got.status, await got.text()], [200, 'by url'])
  const wrong = new URL(down)
  wrong.searchParams.set('path', 'entry')
  assert.equal((await fetch(wrong, { headers })).status, 401)
})
