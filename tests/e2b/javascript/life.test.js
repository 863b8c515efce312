import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import {
  AuthenticationError,
  RateLimitError,
  Sandbox,
  SandboxError,
  SandboxNotFoundError,
  TimeoutError,
} from 'e2b'
import { ORIGIN, OTHER_KEY, own, routing, sleep, until } from './shared.js'
import { WebSocket } from 'ws'

test('a sandbox says what it is', async () => {
  const metadata = { team: 'search', 'sp ace': 'ä=&%+\u2028' }
  await own(
    async (sbx) => {
      assert.match(sbx.sandboxId, /^[a-z0-9]+$/)
      const info = await sbx.getInfo()
      assert.deepEqual([info.sandboxId, info.state], [sbx.sandboxId, 'running'])
      assert.deepEqual({ ...info.metadata }, metadata)
      assert.ok(info.endAt - Date.now() > 100_000)
      assert.ok(Math.abs(info.startedAt - Date.now()) < 30_000)
      const metrics = await until('there are metrics', async () => {
        const got = await sbx.getMetrics()
        return got.length && got
      })
      assert.ok(metrics.at(-1).memTotal > 0)
    },
    { metadata },
  )
})

test('a killed sandbox is gone', async () => {
  const sbx = await Sandbox.create({ timeoutMs: 100_000 })
  assert.equal(await sbx.isRunning(), true)
  assert.equal(await sbx.kill(), true)
  assert.equal(await sbx.isRunning(), false)
  assert.equal(await sbx.kill(), false)
  await assert.rejects(sbx.getInfo(), SandboxNotFoundError)
  await assert.rejects(Sandbox.connect(sbx.sandboxId), SandboxNotFoundError)
  await assert.rejects(sbx.commands.run('true'), SandboxNotFoundError)
  await assert.rejects(sbx.files.read('x'), TimeoutError)
})

test('a kill ends what runs', async () => {
  const sbx = await Sandbox.create({ timeoutMs: 100_000 })
  const run = assert.rejects(sbx.commands.run('sleep 60'), TimeoutError)
  await sleep(300)
  await sbx.kill()
  await run
})

test('its time ends it, and is set anew', async () => {
  const short = await Sandbox.create({ timeoutMs: 2000 })
  const long = await Sandbox.create({ timeoutMs: 2000 })
  await long.setTimeout(100_000)
  await until('its time is up', async () => !(await short.isRunning()), 10)
  assert.equal(await long.isRunning(), true)
  await assert.rejects(short.getInfo(), SandboxNotFoundError)
  await long.kill()
})

test('a pause keeps files and processes', async () => {
  await own(async (sbx) => {
    await sbx.files.write('kept', 'here')
    const handle = await sbx.commands.run('sleep 300', { background: true, timeoutMs: 0 })
    await handle.disconnect()
    assert.equal(await sbx.pause(), true)
    assert.equal(await sbx.pause(), false)
    assert.equal((await sbx.getInfo()).state, 'paused')
    await assert.rejects(sbx.commands.run('true'), SandboxNotFoundError)
    const again = await Sandbox.connect(sbx.sandboxId, { timeoutMs: 100_000 })
    assert.equal(await again.files.read('kept'), 'here')
    assert.ok((await again.commands.list()).some((it) => it.pid === handle.pid))
  })
})

test('its time pauses it, and use resumes it', async () => {
  const sbx = await Sandbox.create({
    timeoutMs: 2000,
    lifecycle: { onTimeout: 'pause', autoResume: true },
  })
  try {
    await sbx.files.write('kept', 'here')
    await until('it is paused', async () => (await sbx.getInfo()).state === 'paused', 15)
    assert.equal((await sbx.commands.run('cat kept')).stdout, 'here')
  } finally {
    await sbx.kill()
  }
})

test('sandboxes are listed in pages and by metadata', async () => {
  const mark = randomUUID()
  const made = []
  try {
    for (let n = 0; n < 5; n++) {
      made.push(await Sandbox.create({ timeoutMs: 100_000, metadata: { mark, n: `${n}`, 'ä =&%+': 'ä =&%+' } }))
    }
    const ids = async (opts) => {
      const pages = Sandbox.list(opts)
      const found = []
      while (pages.hasNext) found.push(...(await pages.nextItems()).map((it) => it.sandboxId))
      return found
    }
    const wanted = made.map((it) => it.sandboxId)
    const query = { metadata: { mark } }
    assert.deepEqual((await ids({ query, limit: 2 })).sort(), [...wanted].sort())
    assert.deepEqual(await ids({ query: { metadata: { mark, n: '3' } } }), [wanted[3]])
    assert.equal((await ids({ query: { metadata: { 'ä =&%+': 'ä =&%+', mark } } })).length, 5)
    await made[1].pause()
    assert.deepEqual(await ids({ query: { ...query, state: ['paused'] } }), [wanted[1]])
  } finally {
    await Promise.all(made.map((it) => it.kill()))
  }
})

test('wrong keys, and sandboxes of others', async () => {
  await own(async (sbx) => {
    const apiKey = `e2b_${'0'.repeat(40)}`
    await assert.rejects(Sandbox.create({ apiKey }), AuthenticationError)
    await assert.rejects(Sandbox.connect(sbx.sandboxId, { apiKey }), AuthenticationError)
    await assert.rejects(Sandbox.list({ apiKey }).nextItems(), AuthenticationError)
    await assert.rejects(Sandbox.connect(sbx.sandboxId, { apiKey: OTHER_KEY }), SandboxNotFoundError)
    await assert.rejects(Sandbox.getInfo(sbx.sandboxId, { apiKey: OTHER_KEY }), SandboxNotFoundError)
    assert.equal(await Sandbox.kill(sbx.sandboxId, { apiKey: OTHER_KEY }), false)
    assert.equal(await sbx.isRunning(), true)
  })
  await assert.rejects(Sandbox.create('no-such-template'), SandboxError)
})

test('too many calls are a rate limit', { skip: !process.env.E2B_TEST_LIMITED_URL }, async () => {
  const apiUrl = process.env.E2B_TEST_LIMITED_URL
  const apiKey = process.env.E2B_TEST_LIMITED_JS_KEY
  await assert.rejects(async () => {
    for (let n = 0; n < 50; n++) await Sandbox.list({ apiUrl, apiKey, retries: 0 }).nextItems()
  }, RateLimitError)
})

test('a server inside is reached', async () => {
  await own(async (sbx) => {
    await sbx.files.write('www/index.html', '<h1>inside</h1>')
    await sbx.commands.run('exec python3 -m http.server 3000 --bind 127.0.0.1 -d www', {
      background: true,
      timeoutMs: 0,
    })
    const got = await until('it answers', async () => {
      const answer = await fetch(`${ORIGIN}/index.html`, { headers: routing(sbx, 3000) })
      return answer.status === 200 ? answer : (await answer.text(), false)
    })
    assert.equal(await got.text(), '<h1>inside</h1>')
    const closed = await fetch(ORIGIN, { headers: routing(sbx, 3999) })
    assert.equal(closed.status, 502)
    assert.match((await closed.json()).message, /port is not open/)
    assert.match(sbx.getHost(3000), new RegExp(`^3000-${sbx.sandboxId}\\.`))
    // A server without WebSockets answers as one.
    const socket = new WebSocket(ORIGIN.replace(/^http/, 'ws'), { headers: routing(sbx, 3000) })
    const error = await new Promise((resolve) => socket.on('error', resolve))
    assert.match(error.message, /200/)
  })
})
