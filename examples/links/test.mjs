import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'

import { App, eventually } from '../lib/app.mjs'
import { did, ref, uri } from '../lib/network.mjs'

const N = 'app.example.links.'
const POST = 'fyi.unravel.frontpage.post'
const COMMENT = 'fyi.unravel.frontpage.comment'
let app

before(async () => { app = await App.start('links') })
after(() => app?.stop())

const titles = (page) => page.links.map((link) => link.title)

test('the newest links come first, on stable pages', async () => {
  const first = await app.call(`${N}getNew`, { limit: 20 })
  const second = await app.call(`${N}getNew`, { limit: 20, cursor: first.cursor })
  assert.equal(new Set([...titles(first), ...titles(second)]).size, 29)
  assert.equal(second.cursor, undefined)
  assert.equal(titles(first)[0], 'Cheap boats')
})

test('hot links have many votes for their age', async () => {
  const { links } = await app.call(`${N}getHot`, { limit: 3 }, 'alice')
  assert.deepEqual(links.map((link) => link.title), ['A kite that flies by itself', 'The lamp that lasts', 'How to build a boat'])
  assert.deepEqual(links.map((link) => link.votes), [3, 1, 3])
  assert.ok(links[0].voted && links[1].voted && !links[2].voted)
})

test('a link has its comments, a comment its answers', async () => {
  const { link, comments } = await app.call(`${N}getLink`, { uri: uri('alice', POST, 'boat') })
  assert.deepEqual([link.votes, link.comments, comments.length], [3, 4, 4])
  assert.ok(comments.every((comment) => comment.author.displayName))
  const { comment } = await app.call(`${N}getComment`, { uri: uri('bob', COMMENT, 'wood') })
  assert.equal(comment.content, 'Which wood?')
  assert.equal(comment.replies[0].replies[0].content, 'Larch is lighter')
  await assert.rejects(app.call(`${N}getLink`, { uri: uri('bob', COMMENT, 'wood') }), { status: 404 })
})

test('links and votes of an account, also by its handle', async () => {
  assert.equal((await app.call(`${N}getUserLinks`, { actor: 'bob.example.com', limit: 100 })).links.length, 25)
  const { votes } = await app.call(`${N}getVoted`, { actor: did('alice') })
  assert.deepEqual(votes.map((vote) => vote.link.title).sort(), ['A kite that flies by itself', 'Paper 1 on tides', 'The lamp that lasts'])
  assert.equal(votes[0].link.author.handle !== undefined, true)
})

test('the newest comments name their link', async () => {
  const { comments } = await app.call(`${N}getComments`, {})
  assert.equal(comments.length, 4)
  assert.ok(comments.every((comment) => comment.link.title === 'How to build a boat'))
})

test('a vote counts at once, and a withdrawn one no more', async () => {
  const votes = async () => (await app.call(`${N}getLink`, { uri: uri('dave', POST, 'lamp') })).link.votes
  await app.network.put('bob', 'fyi.unravel.frontpage.vote', 'late', { subject: ref('dave', POST, 'lamp'), createdAt: new Date().toISOString() })
  await eventually('the vote counts', async () => await votes() === 2)
  await app.network.delete('bob', 'fyi.unravel.frontpage.vote', 'late')
  await eventually('it does not', async () => await votes() === 1)
})

test('a date that an author makes up breaks no list and moves no link up', async () => {
  for (const [rkey, createdAt] of [['before', '1969-07-20T20:17:40Z'], ['after', '2999-01-01T00:00:00Z']]) {
    await app.network.put('spammer', POST, rkey, { title: rkey, url: 'https://spammer.example.com/', createdAt })
  }
  const all = async () => titles(await app.call(`${N}getHot`, { limit: 100 }))
  await eventually('both are there', async () => (await all()).filter((title) => title === 'before' || title === 'after').length === 2)
  assert.deepEqual((await all()).slice(0, 2), ['A kite that flies by itself', 'The lamp that lasts'])
})
