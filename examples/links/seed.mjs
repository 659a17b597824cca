// The accounts and records of the example: links of a week, with votes and comments.
import { ref } from '../lib/network.mjs'

const POST = 'fyi.unravel.frontpage.post'
const COMMENT = 'fyi.unravel.frontpage.comment'
export const NAMES = ['alice', 'bob', 'carol', 'dave', 'spammer']

const HOUR = 3_600_000
const at = (hours) => new Date(Date.now() - hours * HOUR).toISOString()

export async function seed(network) {
  for (const name of NAMES) {
    await network.account(name)
    await network.put(name, 'app.bsky.actor.profile', 'self', { displayName: name[0].toUpperCase() + name.slice(1) })
  }
  const post = (name, rkey, title, hours) =>
    network.put(name, POST, rkey, { title, url: `https://${name}.example.com/${rkey}`, createdAt: at(hours) })
  let votes = 0
  const vote = (name, subject, hours) =>
    network.put(name, 'fyi.unravel.frontpage.vote', `vote${votes++}`, { subject, createdAt: at(hours) })
  const comment = (name, rkey, content, hours, more = {}) =>
    network.put(name, COMMENT, rkey, { content, createdAt: at(hours), post: ref('alice', POST, 'boat'), ...more })

  for (let n = 1; n <= 25; n++) await post('bob', `old${n}`, `Paper ${n} on tides`, 150 - n)
  await post('alice', 'boat', 'How to build a boat', 30)
  await post('carol', 'kite', 'A kite that flies by itself', 4)
  await post('dave', 'lamp', 'The lamp that lasts', 2)
  await post('spammer', 'cheap', 'Cheap boats', 1)

  for (const name of ['bob', 'carol', 'dave']) await vote(name, ref('alice', POST, 'boat'), 20)
  for (const name of ['alice', 'bob', 'dave']) await vote(name, ref('carol', POST, 'kite'), 3)
  await vote('alice', ref('dave', POST, 'lamp'), 1)
  await vote('alice', ref('bob', POST, 'old1'), 100)

  await comment('bob', 'wood', 'Which wood?', 25)
  await comment('alice', 'oak', 'Oak', 24, { parent: ref('bob', COMMENT, 'wood') })
  await comment('carol', 'larch', 'Larch is lighter', 23, { parent: ref('alice', COMMENT, 'oak') })
  await comment('dave', 'nice', 'Nice', 22)
}
