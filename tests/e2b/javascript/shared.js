// What the cases share: sandboxes, and where the service is.

import { after, before } from 'node:test'
import { Sandbox } from 'e2b'

export const ORIGIN = process.env.E2B_SANDBOX_URL
export const OTHER_KEY = process.env.E2B_TEST_OTHER_KEY

/** A sandbox that the cases of a file share. */
export function shared(kind = Sandbox, opts = {}) {
  const holder = {}
  before(async () => {
    holder.sbx = await kind.create({ timeoutMs: 300_000, ...opts })
  })
  after(async () => {
    await holder.sbx?.kill()
  })
  return holder
}

/** A sandbox that its case may break. */
export async function own(use, opts = {}, kind = Sandbox) {
  const sandbox = await kind.create({ timeoutMs: 300_000, ...opts })
  try {
    return await use(sandbox)
  } finally {
    await sandbox.kill()
  }
}

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

/** Waits until a condition holds, and returns what it said. */
export async function until(what, condition, seconds = 20) {
  const deadline = Date.now() + seconds * 1000
  for (;;) {
    const said = await condition()
    if (said) return said
    if (Date.now() > deadline) throw new Error(`waited in vain until ${what}`)
    await sleep(20)
  }
}

/** The headers that choose a sandbox and a port of it, and may use it. */
export function routing(sandbox, port, more = {}) {
  const headers = { 'E2b-Sandbox-Id': sandbox.sandboxId, 'E2b-Sandbox-Port': `${port}` }
  if (sandbox.trafficAccessToken) headers['E2B-Traffic-Access-Token'] = sandbox.trafficAccessToken
  return { ...headers, ...more }
}
