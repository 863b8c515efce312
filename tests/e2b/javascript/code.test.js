import assert from 'node:assert/strict'
import { test } from 'node:test'
import { InvalidArgumentError, NotFoundError, Sandbox, SandboxError, TimeoutError } from '@e2b/code-interpreter'
import { own, shared } from './shared.js'

const holder = shared(Sandbox)
const local = { skip: process.env.E2B_TEST_BACKEND !== 'local' }

test('the last value is the result, and variables stay', async () => {
  const { sbx } = holder
  const execution = await sbx.runCode('x = 41\nx + 1')
  assert.equal(execution.text, '42')
  assert.equal(execution.results[0].isMainResult, true)
  assert.equal((await sbx.runCode("'it is'")).text, 'it is')
  assert.equal((await sbx.runCode('x')).text, '41')
  assert.deepEqual((await sbx.runCode('y = 1')).results, [])
  const count = (await sbx.runCode('1')).executionCount
  assert.equal((await sbx.runCode('1')).executionCount, count + 1)
})

test('callbacks come while it runs', async () => {
  const { sbx } = holder
  const out = []
  const err = []
  const results = []
  const errors = []
  const execution = await sbx.runCode(
    "import sys\nprint('o')\nprint('e', file=sys.stderr)\ndisplay(7)\n1 / 0",
    {
      onStdout: (it) => { out.push(it) },
      onStderr: (it) => { err.push(it) },
      onResult: (it) => { results.push(it) },
      onError: (it) => { errors.push(it) },
    },
  )
  assert.equal(out.map((it) => it.line).join(''), 'o\n')
  assert.equal(err.map((it) => it.line).join(''), 'e\n')
  assert.deepEqual(results.map((it) => it.text), ['7'])
  assert.deepEqual(errors.map((it) => it.name), ['ZeroDivisionError'])
  assert.equal(execution.error.value, 'division by zero')
  assert.match(execution.error.traceback, /1 \/ 0/)
})

test('unicode of every kind', async () => {
  const { sbx } = holder
  const text = 'ä漢😀 a\u2028b\u2029c\u0085d\u000b\u001c \ufeff'
  const execution = await sbx.runCode(`text = ${JSON.stringify(text)}\nprint(text * 3000)\ntext`)
  assert.equal(execution.logs.stdout.join(''), text.repeat(3000) + '\n')
  const shown = await sbx.runCode('class It:\n    def __repr__(self): return text\nIt()')
  assert.equal(shown.text, text)
})

test('results have every form', async () => {
  const { sbx } = holder
  const { results } = await sbx.runCode(`
class It:
    def _repr_html_(self): return '<b>ä</b>'
    def _repr_markdown_(self): return '# t'
    def _repr_svg_(self): return '<svg/>'
    def _repr_latex_(self): return '$x$'
    def _repr_json_(self): return {'a': [1]}
    def _repr_png_(self): return b'png'
    def __repr__(self): return 'plain'
It()`)
  const [result] = results
  assert.deepEqual(
    [result.html, result.markdown, result.svg, result.latex, result.text],
    ['<b>ä</b>', '# t', '<svg/>', '$x$', 'plain'],
  )
  assert.deepEqual(result.json, { a: [1] })
  assert.equal(atob(result.png), 'png')
})

test('contexts are apart', async () => {
  const { sbx } = holder
  const one = await sbx.createCodeContext()
  const two = await sbx.createCodeContext({ cwd: '/tmp' })
  assert.deepEqual([one.language, two.cwd], ['python', '/tmp'])
  await sbx.runCode('where = 1', { context: one })
  assert.equal((await sbx.runCode('where', { context: two })).error.name, 'NameError')
  assert.equal((await sbx.runCode('import os; os.getcwd()', { context: two })).text, '/tmp')
  const ids = (await sbx.listCodeContexts()).map((it) => it.id)
  assert.ok(ids.includes(one.id) && ids.includes(two.id))
  await sbx.restartCodeContext(one)
  assert.equal((await sbx.runCode('where', { context: one })).error.name, 'NameError')
  await sbx.removeCodeContext(one)
  await sbx.removeCodeContext(two.id)
  await assert.rejects(sbx.runCode('1', { context: one }), NotFoundError)
  await assert.rejects(sbx.runCode('1', { context: two, language: 'python' }), InvalidArgumentError)
})

test('variables of the environment are set for the run', async () => {
  const { sbx } = holder
  const code = "import os\nos.environ.get('ONCE')"
  assert.equal((await sbx.runCode(code, { envs: { ONCE: 'a b' } })).text, 'a b')
  assert.ok([undefined, 'None'].includes((await sbx.runCode(code)).text))
})

test('a timeout interrupts', async () => {
  const { sbx } = holder
  await sbx.runCode("kept = 'kept'")
  await assert.rejects(
    sbx.runCode('import time\nfor _ in range(600): time.sleep(0.1)', { timeoutMs: 1000 }),
    TimeoutError,
  )
  assert.equal((await sbx.runCode('kept')).text, 'kept')
})

test('javascript, bash and what nobody has', async () => {
  const { sbx } = holder
  const bash = await sbx.runCode('echo $((6 * 7))', { language: 'bash' })
  assert.equal(bash.logs.stdout.join(''), '42\n')
  await assert.rejects(sbx.runCode('1', { language: 'no-such-language' }), SandboxError)
})

test('javascript', local, async () => {
  const { sbx } = holder
  const execution = await sbx.runCode("const a = [1]; console.log('hi'); a.length", { language: 'javascript' })
  assert.deepEqual([execution.text, execution.logs.stdout.join('')], ['1', 'hi\n'])
})

test('charts', local, async () => {
  const { sbx } = holder
  const execution = await sbx.runCode(
    "import matplotlib.pyplot as plt\nplt.bar(['a', 'b'], [1, 2])\nplt.title('Bars')\nplt.show()",
  )
  const [result] = execution.results.filter((it) => it.png)
  assert.deepEqual([result.chart.type, result.chart.title], ['bar', 'Bars'])
  assert.deepEqual(result.chart.elements.map((it) => it.label), ['a', 'b'])
})

test('a kill ends the run', async () => {
  await own(
    async (sbx) => {
      const run = assert.rejects(sbx.runCode('import time; time.sleep(60)'), TimeoutError)
      setTimeout(() => sbx.kill(), 1000)
      await run
    },
    {},
    Sandbox,
  )
})
