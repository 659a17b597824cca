import { call, el, list, nameOf, show } from '/lib.js'

const N = 'app.example.links.'
const person = (author) => el('a', { href: `#user/${author.did}` }, nameOf(author))
const short = (uri) => uri.split('/').pop()

const link = ({ uri, title, url, author, votes, comments, voted }) => [
  el('a', { href: /^https?:/.test(url) ? url : undefined, rel: 'noreferrer' }, title), el('br'),
  el('small', {}, `${votes} votes${voted ? ', yours too' : ''}, by `, person(author), ', ', el('a', { href: `#link/${uri}` }, `${comments} comments`)),
]

const links = (method, params) => list(async (cursor) => {
  const page = await call(N + method, { ...params, cursor })
  return { rows: page.links, cursor: page.cursor }
}, link)

const branch = ({ uri, content, author, votes, replies = [] }) =>
  el('ul', {}, el('li', {}, person(author), el('p', {}, content), el('small', {}, votes === undefined ? el('a', { href: `#comment/${uri}` }, 'answers') : `${votes} votes`), replies.map(branch)))

show(document.querySelector('main'), {
  hot: () => links('getHot'),
  new: () => links('getNew'),
  user: (actor) => links('getUserLinks', { actor }),
  link: async (uri) => {
    const found = await call(`${N}getLink`, { uri })
    return [el('div', {}, link(found.link)), ...found.comments.map(branch)]
  },
  comment: async (uri) => branch((await call(`${N}getComment`, { uri })).comment),
  comments: () => list(async (cursor) => {
    const page = await call(`${N}getComments`, { cursor })
    return { rows: page.comments, cursor: page.cursor }
  }, ({ content, author, link, uri }) => [person(author), el('p', {}, content), el('small', {}, link ? el('a', { href: `#link/${link.uri}` }, link.title) : short(uri))]),
})
