// Everything by TLS and names, with the SDKs from npm.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Sandbox } from '@e2b/code-interpreter'
import { Sandbox as Base } from 'e2b'

test('commands, files and code', async () => {
  const sandbox = await Sandbox.create({ timeoutMs: 100_000 })
  assert.equal((await sandbox.commands.run('echo on')).stdout, 'on\n')
  await sandbox.files.write('f', 'ä')
  assert.equal(await sandbox.files.read('f'), 'ä')
  assert.equal((await sandbox.runCode('6 * 7')).text, '42')
  const got = await fetch(await sandbox.downloadUrl('f'))
  assert.equal(await got.text(), 'ä')
  assert.equal(await sandbox.kill(), true)
  assert.equal(await sandbox.isRunning(), false)
})

test('many streams at once', async () => {
  const sandbox = await Base.create({ timeoutMs: 100_000 })
  const runs = Array.from({ length: 20 }, (_, n) => sandbox.commands.run(`sleep 0.3; echo ${n}`))
  const said = (await Promise.all(runs)).map((it) => it.stdout)
  assert.deepEqual(said, Array.from({ length: 20 }, (_, n) => `${n}\n`))
  await sandbox.kill()
})
