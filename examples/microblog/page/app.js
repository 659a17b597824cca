import { call, el, list, nameOf, show } from '/lib.js'

const N = 'app.example.microblog.'
const person = (author) => el('a', { href: `#profile/${author.did}` }, nameOf(author))

const post = ({ uri, author, record, quoted, likeCount, replyCount, liked }) => [
  person(author), el('p', {}, record.text),
  quoted && el('blockquote', {}, person(quoted.author), el('p', {}, quoted.record.text)),
  el('small', {}, `${likeCount ?? 0} likes${liked ? ', yours too' : ''} `, el('a', { href: `#thread/${uri}` }, `${replyCount ?? 0} replies`)),
]

const feed = (method, params) => list(async (cursor) => {
  const page = await call(N + method, { ...params, cursor })
  return { rows: page.feed, cursor: page.cursor }
}, post)

const branch = ({ author, record, likeCount, replies }) =>
  el('ul', {}, el('li', {}, person(author), el('p', {}, record.text), el('small', {}, `${likeCount} likes`), replies.map(branch)))

show(document.querySelector('main'), {
  timeline: () => feed('getTimeline'),
  thread: async (uri) => branch((await call(`${N}getThread`, { uri })).thread),
  profile: async (actor) => {
    const profile = await call(`${N}getProfile`, { actor })
    const { following, followedBy } = profile.viewer ?? {}
    return [
      el('h2', {}, nameOf(profile)), el('p', {}, profile.description),
      el('p', {}, `${profile.followers} followers, ${profile.follows} follows, ${profile.posts} posts`),
      el('p', {}, [following && 'You follow them.', followedBy && 'They follow you.'].filter(Boolean).join(' ')),
      ...await feed('getAuthorFeed', { actor }),
    ].flat()
  },
  notifications: async () => {
    const { notifications } = await call(`${N}getNotifications`)
    return el('ol', {}, notifications.map(({ author, reason, uri }) => el('li', {}, person(author), ` ${reason} `, el('small', {}, uri))))
  },
  search: async (q) => {
    const field = el('input', { 'aria-label': 'Search for', value: q })
    const form = el('form', { onsubmit: (event) => { event.preventDefault(); location.hash = `search/${encodeURIComponent(field.value)}` } }, field, el('button', {}, 'Search'))
    if (!q) return form
    const found = (await call(`${N}searchPosts`, { q })).feed
    return [form, el('ol', {}, found.map((each) => el('li', {}, post(each))))]
  },
})
