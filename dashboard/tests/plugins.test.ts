import { expect, test } from 'vitest'
import { requestOf } from '../src/pages/plugins/request'

test('a plugin comes from an address or as files', async () => {
  const url = 'https://plugins.example/manifest.json'
  expect(requestOf({ url, sha256: '' })).toEqual({ url })
  expect(requestOf({ url, sha256: 'ab' }, ['kv:use'])).toEqual({ url, sha256: 'ab', accepted_capabilities: ['kv:use'] })
  // An empty list accepts nothing, and is sent.
  expect(requestOf({ url, sha256: '' }, [])).toEqual({ url, accepted_capabilities: [] })

  const form = requestOf({ manifest: new Blob(['{}']), module: new Blob(['\0asm']) }, ['kv:use']) as FormData
  expect([...form.keys()]).toEqual(['manifest', 'module', 'accepted_capabilities'])
  expect(form.get('accepted_capabilities')).toBe('["kv:use"]')
  expect(await (form.get('manifest') as Blob).text()).toBe('{}')
})
