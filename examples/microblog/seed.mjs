// The accounts and records of the example: a few people who know each other.
import { did, ref } from '../lib/network.mjs'

const POST = 'app.bsky.feed.post'
export const NAMES = ['alice', 'bob', 'carol', 'dave', 'erin', 'troll']

// One post a minute, the last ones today.
const START = Date.now() - 100 * 60_000
let minutes = 0
const now = () => new Date(START + minutes++ * 60_000).toISOString()

export async function seed(network) {
  const post = (name, rkey, text, more = {}) => network.put(name, POST, rkey, { text, createdAt: now(), ...more })
  const reply = (name, rkey, text, parent, root = parent) => post(name, rkey, text, { reply: { root, parent } })
  const like = (name, rkey, subject) => network.put(name, 'app.bsky.feed.like', rkey, { subject, createdAt: now() })
  const follow = (name, whom) => network.put(name, 'app.bsky.graph.follow', whom, { subject: did(whom), createdAt: now() })

  for (const name of NAMES) {
    await network.account(name)
    const displayName = name[0].toUpperCase() + name.slice(1)
    await network.put(name, 'app.bsky.actor.profile', 'self', { displayName, description: `I am ${displayName}.` })
  }
  for (const [name, whom] of [['alice', 'bob'], ['alice', 'carol'], ['alice', 'troll'], ['bob', 'alice'], ['carol', 'alice'], ['dave', 'alice'], ['erin', 'bob']]) {
    await follow(name, whom)
  }
  await network.put('alice', 'app.bsky.graph.block', 'troll', { subject: did('troll'), createdAt: now() })

  for (let n = 1; n <= 30; n++) await post('bob', `note${n}`, `Note ${n} of the garden diary`)
  await post('carol', 'hello', 'Hello from the mountains')
  await post('troll', 'bait', 'You are all wrong about gardens')
  await post('alice', 'first', 'Which plants like shade?')
  await post('dave', 'quote', 'Worth a read', { embed: { record: ref('alice', POST, 'first') } })

  const root = ref('alice', POST, 'first')
  await reply('bob', 'ferns', 'Ferns do', root)
  await reply('carol', 'hostas', 'Hostas, and they look good', root)
  await reply('troll', 'none', 'None', root)
  await reply('alice', 'thanks', 'Thank you!', ref('bob', POST, 'ferns'), root)
  await reply('erin', 'moss', 'Do not forget moss', ref('bob', POST, 'ferns'), root)

  for (const name of ['bob', 'carol', 'dave', 'erin']) await like(name, 'first', root)
  await like('alice', 'hello', ref('carol', POST, 'hello'))
  await like('alice', 'ferns', ref('bob', POST, 'ferns'))
}
