// The parts that need no host. Run with: node --test plugins/itchio/test/

import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import test from 'node:test';

import { reporting } from '../src/faults.js';
import { page } from '../src/records.js';
import { base64url, sha256 } from '../src/sha256.js';
import { refusal, tokensOf } from '../src/tokens.js';
import { behindProxy, form } from '../src/urls.js';

test('hashes are those of SHA-256', () => {
  for (let length = 0; length < 200; length++) {
    const bytes = randomBytes(length);
    assert.equal(Buffer.from(sha256(bytes)).toString('hex'), createHash('sha256').update(bytes).digest('hex'));
    assert.equal(base64url(bytes), bytes.toString('base64url'));
  }
});

test('the example of RFC 7636', () => {
  const verifier = new TextEncoder().encode('dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk');
  assert.equal(base64url(sha256(verifier)), 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM');
});

test('parameters are encoded', () => {
  assert.equal(form({ a: "b c&d='()*", e: 'ü' }), 'a=b%20c%26d%3D%27%28%29%2A&e=%C3%BC');
  assert.equal(behindProxy('http://localhost:1/', 'https://api.itch.io/x'), 'http://localhost:1/api.itch.io/x');
});

test('tokens are read in both spellings', () => {
  const expected = { access: 'a', refresh: 'r', tokenType: 'Bearer', scope: undefined };
  const expiry = { tag: 'in-seconds', val: 60 };
  assert.deepEqual(tokensOf({ access_token: 'a', refresh_token: 'r', expires_in: 60 }), { ...expected, expiry });
  assert.deepEqual(tokensOf({ accessToken: 'a', refreshToken: 'r', expiresIn: 60 }), { ...expected, expiry });
  assert.deepEqual(tokensOf({ access_token: 'a' }).expiry, { tag: 'never' });
  assert.throws(() => tokensOf({}), (error) => error.payload.code === 'upstream');
});

test('only a grant that is not accepted asks for a new sign-in', () => {
  const code = (status, error) => refusal({ status, json: error && { error } })?.payload.code;
  assert.equal(code(400, 'invalid_grant'), 'needs-reauth');
  assert.equal(code(400, 'invalid_client'), 'internal');
  assert.equal(code(401, 'invalid_client'), 'internal');
  for (const status of [400, 401, 403]) {
    assert.equal(code(status, 'invalid_request'), 'upstream');
    assert.equal(code(status, undefined), 'upstream');
  }
  assert.equal(code(429), undefined);
  assert.equal(code(200), undefined);
});

test('pages of keys become records', () => {
  const key = (id) => ({ id: id * 10, game_id: id, game: { id, title: `Game ${id}`, url: `https://a.itch.io/${id}` } });
  const read = (number) => ({ owned_keys: number === 1 ? [key(1), key(2), key(2)] : {}, page: number, per_page: 3 });
  const first = page(undefined, read);
  assert.deepEqual(first.items.map((item) => item.dedupKey), ['itchio:1', 'itchio:2']);
  assert.deepEqual(JSON.parse(first.items[0].value), {
    $type: 'dev.games.actor.ownership',
    platform: 'itchio',
    externalId: '1',
    title: 'Game 1',
    url: 'https://a.itch.io/1',
  });
  assert.equal(first.next, '2');
  assert.deepEqual(page(first.next, read), { items: [], next: undefined });
  assert.throws(() => page('x', read), (error) => error.payload.code === 'bad-input');
});

test('every error is a fault', () => {
  const payload = (call) => {
    try {
      reporting(call)();
    } catch (error) {
      return error.payload;
    }
    return undefined;
  };
  assert.equal(payload(() => null.x).code, 'internal');
  assert.deepEqual(payload(() => { throw { payload: { code: 'forbidden' } }; }), { code: 'forbidden' });
});
