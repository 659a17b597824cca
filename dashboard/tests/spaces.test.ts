import { expect, test } from 'vitest'
import type { Inspection } from '../src/api/models/spaces'
import { apiPath, spaceOf } from '../src/lib/spaces'
import { allowedApps, appAccessOf, policyForm, policyOf } from '../src/pages/spaces/policies'
import { stateOf } from '../src/pages/spaces/state'

const SPACE = 'at://did:plc:a/space/com.example.group/main'

test('an address in a space leads to the space', () => {
  expect(spaceOf(SPACE)).toBe(SPACE)
  expect(spaceOf(`${SPACE}/did:plc:b/com.example.note/1`)).toBe(SPACE)
  const others = ['', 'at://did:plc:a/space', 'at://did:plc:a/com.example.note/1', `${SPACE}/`, `${SPACE}/did:plc:b`]
  expect(others.map(spaceOf)).toEqual(others.map(() => null))
})

test('the parts of an address are parts of the path, escaped', () => {
  expect(apiPath('at://did:web:localhost%3A80/space/com.example.group/a:b')).toBe(
    '/admin/spaces/did%3Aweb%3Alocalhost%253A80/com.example.group/a%3Ab',
  )
})

test('an inspection runs until it ends or is revoked', () => {
  const of = (revoked_at: string | null) => ({ revoked_at, expires_at: '2026-01-01T12:00:00Z' }) as Inspection
  const at = (time: string) => new Date(`2026-01-01T${time}Z`)
  expect(stateOf(of(null), at('11:59:59'))).toBe('running')
  expect(stateOf(of(null), at('12:00:00'))).toBe('ended')
  expect(stateOf(of('2026-01-01T11:00:00Z'), at('11:30:00'))).toBe('revoked')
})

test('policies are read and written as the protocol has them', () => {
  for (const policy of [
    { $type: 'com.atproto.simplespace.defs#publicPolicy' },
    { $type: 'com.atproto.simplespace.defs#memberListPolicy' },
    { $type: 'com.atproto.simplespace.defs#managingAppPolicy', managingApp: 'did:plc:app#admit' },
  ]) {
    expect(policyOf(policyForm(policy))).toEqual(policy)
  }
  expect(policyForm(undefined)).toEqual({ kind: 'memberListPolicy', app: '' })
  for (const allowed of [null, [], ['https://app.example/client.json']]) {
    expect(allowedApps(appAccessOf(allowed))).toEqual(allowed)
  }
})
