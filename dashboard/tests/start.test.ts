import { expect, test } from 'vitest'
import { fieldsOf } from '../src/pages/account/schema'
import { clientOf, isPage } from '../src/pages/start/client'

test('an application is registered with the usual paths below its URL', () => {
  expect(clientOf(' My app ', 'https://app.example/web/', 'public')).toEqual({
    name: 'My app',
    client_uri: 'https://app.example/web',
    client_id_url: 'https://app.example/web/oauth-client-metadata.json',
    redirect_uris: ['https://app.example/web/oauth/callback'],
    client_type: 'public',
    allowed_origins: ['https://app.example'],
  })
  expect(clientOf('a', 'https://a.example', 'confidential')).not.toHaveProperty('allowed_origins')
})

test('only pages are URLs of applications', () => {
  expect(['https://app.example', 'http://localhost:3000/x'].map(isPage)).toEqual([true, true])
  expect(
    ['', 'app.example', 'javascript:alert(1)', 'https://a.example/?x', 'https://a.example/#x'].map(isPage),
  ).toEqual(Array(5).fill(false))
})

test('the fields of a plugin come from its schema, whatever it holds', () => {
  const schema = {
    properties: { api_key: { title: 'Key', description: 'From your profile' }, name: { title: 3 }, odd: null },
    required: ['api_key'],
  }
  expect(fieldsOf(schema)).toEqual([
    { key: 'api_key', title: 'Key', description: 'From your profile', required: true, isSecret: true },
    { key: 'name', title: 'name', description: '', required: false, isSecret: false },
    { key: 'odd', title: 'odd', description: '', required: false, isSecret: false },
  ])
  for (const broken of [undefined, null, 'x', { properties: 'x' }]) expect(fieldsOf(broken)).toEqual([])
})
