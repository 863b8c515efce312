import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  AuthenticationError,
  CommandExitError,
  InvalidArgumentError,
  NotFoundError,
  TimeoutError,
} from 'e2b'
import { own, shared, sleep, until } from './shared.js'

const holder = shared()

test('a command runs in the foreground', async () => {
  const { sbx } = holder
  const result = await sbx.commands.run('echo out; echo err >&2')
  assert.deepEqual([result.stdout, result.stderr, result.exitCode], ['out\n', 'err\n', 0])
})

test('an exit code is an error with all that was printed', async () => {
  const { sbx } = holder
  await assert.rejects(sbx.commands.run('echo out; echo err >&2; exit 7'), (error) => {
    assert.ok(error instanceof CommandExitError)
    assert.deepEqual([error.exitCode, error.stdout, error.stderr], [7, 'out\n', 'err\n'])
    return true
  })
})

test('variables, folder and user', async () => {
  const { sbx } = holder
  const said = await sbx.commands.run('echo "$GIVEN"; pwd', {
    envs: { GIVEN: "a 'b'" },
    cwd: '/tmp',
    user: 'user',
  })
  assert.equal(said.stdout, "a 'b'\n/tmp\n")
  await assert.rejects(sbx.commands.run('true', { cwd: '/no/such' }), InvalidArgumentError)
  await assert.rejects(sbx.commands.run('true', { user: 'root' }), AuthenticationError)
})

test('output comes while the command runs', async () => {
  const { sbx } = holder
  const out = []
  const err = []
  const times = []
  const result = await sbx.commands.run('for i in 1 2 3; do echo $i; sleep 0.3; done; echo e >&2', {
    onStdout: (text) => {
      out.push(text)
      times.push(Date.now())
    },
    onStderr: (text) => {
      err.push(text)
    },
  })
  assert.equal(out.join(''), '1\n2\n3\n')
  assert.equal(result.stdout, '1\n2\n3\n')
  assert.equal(err.join(''), 'e\n')
  assert.ok(times.at(-1) - times[0] > 400)
})

test('a background command is waited for, and killed', async () => {
  const { sbx } = holder
  const handle = await sbx.commands.run('sleep 0.2; echo done', { background: true })
  assert.ok(handle.pid > 0)
  assert.equal((await handle.wait()).stdout, 'done\n')
  const other = await sbx.commands.run('sleep 60', { background: true })
  assert.ok((await sbx.commands.list()).some((it) => it.pid === other.pid))
  assert.equal(await other.kill(), true)
  await assert.rejects(other.wait(), CommandExitError)
  await until('it is gone', async () => !(await sbx.commands.kill(other.pid)))
})

test('stdin is sent and closed', async () => {
  const { sbx } = holder
  const handle = await sbx.commands.run('cat; echo end', { background: true, stdin: true })
  await sbx.commands.sendStdin(handle.pid, 'first\n')
  await handle.sendStdin(new TextEncoder().encode('ä second\n'))
  await handle.closeStdin()
  assert.equal((await handle.wait()).stdout, 'first\nä second\nend\n')
  await assert.rejects(sbx.commands.sendStdin(999999, 'x'), NotFoundError)
})

test('a timeout ends the command', async () => {
  const { sbx } = holder
  await assert.rejects(sbx.commands.run('sleep 61', { timeoutMs: 1000 }), TimeoutError)
  const left = (await sbx.commands.list()).filter((it) => it.args.at(-1) === 'sleep 61')
  await until('it is killed', async () => left.length === 0 || !(await sbx.commands.list()).some((it) => it.args.at(-1) === 'sleep 61'))
})

test('a running command is connected to', async () => {
  const { sbx } = holder
  const first = await sbx.commands.run('read line; echo got $line', { background: true, stdin: true })
  await first.disconnect()
  const out = []
  const second = await sbx.commands.connect(first.pid, { onStdout: (text) => { out.push(text) } })
  await sbx.commands.sendStdin(first.pid, 'it\n')
  assert.equal((await second.wait()).stdout, 'got it\n')
  assert.equal(out.join(''), 'got it\n')
  await assert.rejects(sbx.commands.connect(999999), NotFoundError)
})

test('a call that is aborted lets go', async () => {
  const { sbx } = holder
  const controller = new AbortController()
  const run = sbx.commands.run('sleep 60', { signal: controller.signal })
  setTimeout(() => controller.abort(), 300)
  await assert.rejects(run)
  assert.equal((await sbx.commands.run('echo on')).stdout, 'on\n')
})

test('text of every kind passes', async () => {
  const { sbx } = holder
  for (const text of ['ä漢😀', 'a\u2028b\u2029c\u0085d', 'tab\tbell\u0007']) {
    assert.equal((await sbx.commands.run('printf %s "$T"', { envs: { T: text } })).stdout, text)
  }
  const cut = await sbx.commands.run("printf '\\xf0\\x9f'; sleep 0.2; printf '\\x98\\x80'")
  assert.equal(cut.stdout, '😀')
})

test('big output comes whole', async () => {
  const { sbx } = holder
  const result = await sbx.commands.run("head -c 10000000 /dev/zero | tr '\\0' x")
  assert.equal(result.stdout.length, 10_000_000)
})

test('twenty commands run at once', async () => {
  const { sbx } = holder
  const runs = Array.from({ length: 20 }, (_, n) => sbx.commands.run(`sleep 0.3; echo ${n}`))
  const said = (await Promise.all(runs)).map((it) => it.stdout)
  assert.deepEqual(said, Array.from({ length: 20 }, (_, n) => `${n}\n`))
})

test('a terminal is one', async () => {
  const { sbx } = holder
  let screen = ''
  const handle = await sbx.pty.create({
    cols: 100,
    rows: 30,
    cwd: '/tmp',
    envs: { GIVEN: 'yes' },
    onData: (data) => {
      screen += new TextDecoder().decode(data)
    },
  })
  const send = (text) => sbx.pty.sendInput(handle.pid, new TextEncoder().encode(text))
  await send('tty; stty size; echo $GIVEN-$TERM; pwd\n')
  for (const text of ['/dev/pts/', '30 100', 'yes-xterm-256color', '/tmp']) {
    await until(`the terminal shows ${text}`, () => screen.includes(text))
  }
  await sbx.pty.resize(handle.pid, { cols: 222, rows: 11 })
  await send('stty size\n')
  await until('it has the new size', () => screen.includes('11 222'))
  await send('exit 0\n')
  assert.equal((await handle.wait()).exitCode, 0)
  assert.equal(await sbx.pty.kill(999999), false)
})

test('variables of the sandbox are in every command', async () => {
  await own(
    async (sbx) => {
      assert.equal((await sbx.commands.run('echo $FROM_CREATE')).stdout, 'kept\n')
    },
    { envs: { FROM_CREATE: 'kept' } },
  )
})

test('silence is kept alive', async () => {
  const { sbx } = holder
  const handle = await sbx.commands.run('sleep 2; echo on', { background: true, timeoutMs: 0 })
  await sleep(500)
  assert.equal((await handle.wait()).stdout, 'on\n')
})
