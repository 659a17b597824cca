import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'

import { App, eventually } from '../lib/app.mjs'
import { did, ref, uri } from '../lib/network.mjs'

const N = 'app.example.microblog.'
const POST = 'app.bsky.feed.post'
const FIRST = uri('alice', POST, 'first')
let app

before(async () => { app = await App.start('microblog') })
after(() => app?.stop())

const texts = (page) => page.feed.map((post) => post.record.text)

test('a timeline has the posts of followed accounts, not of blocked ones, on stable pages', async () => {
  const all = []
  let cursor
  do {
    const page = await app.call(`${N}getTimeline`, { limit: 10, ...(cursor && { cursor }) }, 'alice')
    all.push(...texts(page))
    cursor = page.cursor
  } while (cursor)
  assert.equal(all.length, new Set(all).size)
  assert.equal(all.filter((text) => text.startsWith('Note ')).length, 30)
  assert.ok(all.includes('Hello from the mountains') && all.includes('Ferns do'))
  assert.ok(!all.some((text) => text.startsWith('You are all wrong') || text === 'None'), 'the troll is blocked')
  await assert.rejects(app.call(`${N}getTimeline`, {}), { status: 401 })
})

test('an author feed has counts, the author, and what the caller likes', async () => {
  const load = async () => (await app.call(`${N}getAuthorFeed`, { actor: 'alice.example.com' }, 'bob')).feed
  // The first page that shows an account has its handle looked up.
  await eventually('the handle is known', async () => (await load())[0].author.handle === 'alice.example.com')
  const feed = await load()
  assert.equal(feed.length, 1)
  const [post] = feed
  assert.deepEqual(post.author, { did: did('alice'), handle: 'alice.example.com', displayName: 'Alice' })
  assert.equal(post.uri, FIRST)
  assert.equal(post.likeCount, 4)
  assert.equal(post.replyCount, 3)
  assert.match(post.liked, new RegExp(`^at://${did('bob')}/app.bsky.feed.like/`))
  const { likes } = await app.call(`${N}getLikes`, { uri: FIRST })
  assert.deepEqual(likes.map((like) => like.actor.displayName).sort(), ['Bob', 'Carol', 'Dave', 'Erin'])
  const quoting = (await app.call(`${N}getAuthorFeed`, { actor: did('dave') })).feed[0]
  assert.equal(quoting.quoted.record.text, 'Which plants like shade?')
  assert.equal(quoting.quoted.author.displayName, 'Alice')
  assert.equal(quoting.liked, undefined)
})

test('replies of an account are a list of their own', async () => {
  assert.deepEqual(texts(await app.call(`${N}getReplies`, { actor: did('bob') })), ['Ferns do'])
})

test('a thread is a tree', async () => {
  const { thread } = await app.call(`${N}getThread`, { uri: FIRST }, 'alice')
  assert.equal(thread.record.text, 'Which plants like shade?')
  const [ferns] = thread.replies.filter((reply) => reply.record.text === 'Ferns do')
  assert.deepEqual(ferns.replies.map((reply) => reply.record.text).sort(), ['Do not forget moss', 'Thank you!'])
  assert.ok(!thread.replies.some((reply) => reply.record.text === 'None'))
  const shallow = await app.call(`${N}getThread`, { uri: FIRST, depth: 0 })
  assert.deepEqual(shallow.thread.replies, [])
  await assert.rejects(app.call(`${N}getThread`, { uri: uri('alice', POST, 'nothing') }), { status: 404 })
})

test('profiles have counts and both directions of following', async () => {
  const profile = await app.call(`${N}getProfile`, { actor: 'alice.example.com' }, 'bob')
  assert.equal(profile.displayName, 'Alice')
  assert.deepEqual([profile.followers, profile.follows, profile.posts], [3, 3, 2])
  assert.ok(profile.viewer.following && profile.viewer.followedBy)
  await assert.rejects(app.call(`${N}getProfile`, { actor: 'nobody.example.com' }), (error) => error.status === 400)
  const follows = await app.call(`${N}getFollows`, { actor: did('alice') })
  assert.deepEqual(follows.follows.map((each) => each.displayName).sort(), ['Bob', 'Carol', 'Troll'])
  assert.equal((await app.call(`${N}getFollowers`, { actor: did('bob') })).followers.length, 2)
})

test('posts are found, and notifications are those of others', async () => {
  const found = await app.call(`${N}searchPosts`, { q: 'mountains' })
  assert.deepEqual(texts(found), ['Hello from the mountains'])
  const { notifications } = await app.call(`${N}getNotifications`, { limit: 100 }, 'alice')
  const reasons = (reason) => notifications.filter((each) => each.reason === reason).length
  assert.deepEqual([reasons('like'), reasons('follow')], [4, 3])
  assert.ok(notifications.every((each) => each.author.did !== did('alice')))
  await assert.rejects(app.call(`${N}getNotifications`, {}), { status: 401 })
})

test('parameters keep the promise of their lexicon', async () => {
  await assert.rejects(app.call(`${N}getTimeline`, { limit: 1000 }), { status: 400 })
  await assert.rejects(app.call(`${N}getAuthorFeed`, {}), { status: 400 })
})

test('a new post, a like and its end are seen at once', async () => {
  await app.network.put('carol', POST, 'live', { text: 'Just now', createdAt: new Date().toISOString() })
  const first = async () => (await app.call(`${N}getTimeline`, { limit: 1 }, 'alice')).feed[0]
  await eventually('the post is first', async () => (await first())?.record.text === 'Just now')
  await app.network.put('alice', 'app.bsky.feed.like', 'live', { subject: ref('carol', POST, 'live'), createdAt: new Date().toISOString() })
  await eventually('it is liked', async () => (await first()).likeCount === 1 && (await first()).liked === uri('alice', 'app.bsky.feed.like', 'live'))
  await app.network.delete('alice', 'app.bsky.feed.like', 'live')
  await eventually('it is no more', async () => (await first()).likeCount === 0 && (await first()).liked === undefined)
})
