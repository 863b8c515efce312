// Keeps an interpreter alive: takes code from descriptor 3, and tells on descriptor 4
// what it shows and how it ends. Its variables are those of one long script.
'use strict';

const fs = require('fs');
const net = require('net');
const path = require('path');
const repl = require('repl');
const stream = require('stream');
const util = require('util');
const vm = require('vm');

const REQUESTS = 3;
const REPLIES = 4;
const MAX_TEXT = 256 * 1024;
const MAX_PICTURE = 700 * 1000;

let number = 0;
let interrupt = null;

function frame(kind, payload) {
  const data = Buffer.from(payload, 'utf8');
  return Buffer.concat([Buffer.from(`${number} ${kind} ${data.length}\n`), data]);
}

// Until all of it is written: the guest reads as fast as its own reader does.
function write(data) {
  let at = 0;
  while (at < data.length) {
    try {
      at += fs.writeSync(REPLIES, data, at);
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
    }
  }
}

// Jupyter's kernels for JavaScript show an object by these, too.
const METHODS = [
  ['_toHtml', 'text/html'],
  ['toHtml', 'text/html'],
  ['_toSvg', 'image/svg+xml'],
  ['_toPng', 'image/png'],
  ['_toJpeg', 'image/jpeg'],
  ['_toMime', null],
];

function bundleOf(value) {
  let bundle = {};
  if (value !== null && typeof value === 'object') {
    for (const [method, mime] of METHODS) {
      let data;
      try {
        data = typeof value[method] === 'function' ? value[method]() : undefined;
      } catch {
        continue;
      }
      if (mime !== null && data != null) bundle[mime] = data;
      else if (mime === null && data !== null && typeof data === 'object') Object.assign(bundle, data);
    }
  }
  if (bundle['text/plain'] === undefined) bundle['text/plain'] = util.inspect(value);
  return texts(bundle);
}

function texts(bundle) {
  const small = {};
  for (const [mime, data] of Object.entries(bundle)) {
    let text = data;
    if (Buffer.isBuffer(data) || data instanceof Uint8Array) {
      text = Buffer.from(data).toString('base64');
    } else if (typeof data !== 'string') {
      text = JSON.stringify(data);
    }
    if (typeof text !== 'string') continue;
    if (text.length <= (mime.startsWith('image/') ? MAX_PICTURE : MAX_TEXT)) small[mime] = text;
    else if (mime === 'text/plain') small[mime] = text.slice(0, MAX_TEXT) + '...';
  }
  return small;
}

function display(value, options) {
  const bundle = options && options.raw && value ? texts(value) : bundleOf(value);
  write(frame('display', JSON.stringify(bundle)));
}

function errorOf(error) {
  if (error instanceof Error || (error && typeof error.stack === 'string')) {
    const own = path.basename(__filename);
    const stack = String(error.stack)
      .split('\n')
      .filter((line) => !line.includes(own) && !/^\s+at .*\bnode:/.test(line));
    return {
      name: String(error.name || 'Error'),
      value: String(error.message),
      traceback: stack.join('\n'),
    };
  }
  return { name: 'Error', value: util.inspect(error), traceback: `Uncaught ${util.inspect(error)}` };
}

class Interrupted extends Error {
  constructor() {
    super('the code was interrupted');
    this.name = 'Interrupted';
    this.stack = 'Interrupted: the code was interrupted';
  }
}

// The REPL has what makes an `await` at the top work, and keeps the variables of such
// code; it neither reads nor prints.
const silent = new stream.Duplex({
  read() {},
  write(_chunk, _encoding, done) {
    done();
  },
});
const server = repl.start({
  input: silent,
  output: silent,
  prompt: '',
  terminal: false,
  useGlobal: true,
  ignoreUndefined: true,
});
// It would print them, and lose those of code that is over.
server._domain.removeAllListeners('error');
server._domain.on('error', (error) => (interrupt || complain)(error));
process.on('uncaughtException', (error) => (interrupt || complain)(error));
process.on('unhandledRejection', (error) => (interrupt || complain)(error));

function complain(error) {
  process.stderr.write(`Uncaught ${util.inspect(error)}\n`);
}

Object.defineProperty(globalThis, 'display', {
  value: display,
  writable: true,
  configurable: true,
});

function onInterrupt() {
  if (interrupt) interrupt(new Interrupted());
}

process.on('SIGINT', onInterrupt);

// Where node has it, `import()` finds what it would find in a file.
const LOADER = vm.constants && vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER;

// The code as a script, unless it is one only with an `await` at its top.
function scriptOf(code, filename) {
  const options = { filename };
  if (LOADER && /\bimport\b/.test(code)) options.importModuleDynamically = LOADER;
  return compiled(code, options);
}

// That the loader is on trial is not the client's concern.
const warn = process.emitWarning;
process.emitWarning = function emitWarning(warning, ...rest) {
  if (!String(warning).includes('USE_MAIN_CONTEXT_DEFAULT_LOADER')) warn.call(this, warning, ...rest);
};

function compiled(code, options) {
  if (/^\s*{/.test(code) && !/;\s*$/.test(code)) {
    try {
      // An object, as it is one where code is typed in by hand.
      return new vm.Script(`(${code.trimEnd()}\n)`, options);
    } catch {
      // It is a block, then.
    }
  }
  try {
    return new vm.Script(code, options);
  } catch (error) {
    if (error instanceof SyntaxError && /\bawait\b/.test(code)) return null;
    throw error;
  }
}

function evaluate(code) {
  const filename = `run-${number}.js`;
  return new Promise((resolve, reject) => {
    interrupt = reject;
    const script = scriptOf(code, filename);
    if (script !== null) {
      resolve(script.runInThisContext({ displayErrors: false, breakOnSigint: true }));
      return;
    }
    server.eval(code, server.context, filename, (error, value) => {
      if (error) reject(error);
      else resolve(value);
    });
  });
}

function recovered(error) {
  if (error instanceof repl.Recoverable) return error.err;
  return error && error.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED' ? new Interrupted() : error;
}

async function run(code) {
  let frames = [];
  let exitCode = 0;
  try {
    const value = await evaluate(code + '\n');
    if (value !== undefined) frames.push(frame('result', JSON.stringify(bundleOf(value))));
  } catch (error) {
    exitCode = 1;
    frames.push(frame('error', JSON.stringify(errorOf(recovered(error)))));
  }
  interrupt = null;
  frames.push(frame('done', String(exitCode)));
  write(Buffer.concat(frames));
}

async function serve() {
  const requests = new net.Socket({ fd: REQUESTS, readable: true, writable: false });
  let left = Buffer.alloc(0);
  write(frame('ready', ''));
  for await (const chunk of requests) {
    left = Buffer.concat([left, chunk]);
    for (;;) {
      const end = left.indexOf(10);
      if (end < 0) break;
      const [of, size] = left.toString('latin1', 0, end).split(' ').map(Number);
      if (left.length < end + 1 + size) break;
      const code = left.toString('utf8', end + 1, end + 1 + size);
      left = left.subarray(end + 1 + size);
      number = of;
      await run(code);
    }
  }
  process.exit(0);
}

serve();
