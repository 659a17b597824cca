// What the pages of the examples share: calls of the server, a choice of the account, and building elements.
const config = await (await fetch('/config.json')).json()
let account = sessionStorage.getItem('account') ?? ''

// Calls a query method as the chosen account.
export async function call(method, params = {}) {
  const headers = { 'x-client-key': config.clientKey }
  if (account) headers.authorization = `Bearer ${await (await fetch(`/token?as=${account}`)).text()}`
  const given = Object.entries(params).filter(([, value]) => value !== undefined && value !== '')
  const answer = await fetch(`${config.server}/xrpc/${method}?${new URLSearchParams(given)}`, { headers })
  const body = await answer.json()
  if (!answer.ok) throw new Error(body.message ?? body.error)
  return body
}

// An element with its attributes and content. Texts are never read as HTML.
export function el(name, attributes = {}, ...content) {
  const element = document.createElement(name)
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value)
    else if (value !== undefined) element.setAttribute(key, value)
  }
  element.append(...content.flat().filter((each) => each !== undefined && each !== null))
  return element
}

export const nameOf = (author) => author.displayName || author.handle || author.did

// Shows pages by the part of the address after `#`: `#name/argument`. The last call wins when people click quickly.
export function show(main, pages) {
  let shown = 0
  const render = async () => {
    const turn = ++shown
    const [name, ...rest] = location.hash.slice(1).split('/')
    const page = pages[name] ?? Object.values(pages)[0]
    let content
    try {
      content = await page(decodeURIComponent(rest.join('/')))
    } catch (error) {
      content = el('p', { role: 'alert' }, `This can't be shown: ${error.message}`)
    }
    if (turn === shown) main.replaceChildren(...[content].flat())
  }
  addEventListener('hashchange', render)
  const chooser = document.querySelector('#account')
  for (const name of ['', ...config.accounts]) chooser.append(el('option', { value: name }, name || 'nobody'))
  chooser.value = account
  chooser.addEventListener('change', () => {
    account = chooser.value
    sessionStorage.setItem('account', account)
    render()
  })
  render()
}

// A list with a button for its next page. `load` gets a cursor and returns { rows, cursor }.
export async function list(load, row) {
  const items = el('ol')
  const more = el('button', { type: 'button' }, 'More')
  const next = async (cursor) => {
    more.disabled = true
    try {
      const page = await load(cursor)
      items.append(...page.rows.map((each) => el('li', {}, row(each))))
      more.hidden = !page.cursor
      more.onclick = () => next(page.cursor).catch((error) => more.replaceWith(el('p', { role: 'alert' }, error.message)))
    } finally {
      more.disabled = false
    }
  }
  await next()
  if (!items.children.length) return el('p', {}, 'Nothing here yet.')
  return [items, more]
}
