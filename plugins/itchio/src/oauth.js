// OAuth 2.0 with itch.io: authorization code with PKCE, as a public client.

import { random } from 'belvedere:plugin/clock@1.0.0';
import { get as kvGet, set as kvSet } from 'belvedere:plugin/kv@1.0.0';
import { fault } from './faults.js';
import { postForm, requiredSecret, serviceUrl, successful } from './http.js';
import { base64url, sha256 } from './sha256.js';
import { refusal, tokensOf } from './tokens.js';
import { form } from './urls.js';

const AUTHORIZE = 'https://itch.io/user/oauth';
const TOKEN = 'https://api.itch.io/oauth/token';
const SCOPE = 'profile:me profile:owned';
/// The value that keeps the verifier between `authorizeUrl` and `exchange`.
const VERIFIER = 'pkce-verifier';

export function authorizeUrl({ state, redirectUri }) {
  const verifier = base64url(random(32));
  const bytes = new TextEncoder().encode(verifier);
  kvSet('flow', VERIFIER, bytes, undefined);
  const query = form({
    client_id: requiredSecret('CLIENT_ID'),
    response_type: 'code',
    redirect_uri: redirectUri,
    scope: SCOPE,
    state,
    code_challenge: base64url(sha256(bytes)),
    code_challenge_method: 'S256',
  });
  return `${serviceUrl(AUTHORIZE)}?${query}`;
}

export function exchange({ redirectUri, params }) {
  const code = params.find(([name]) => name === 'code')?.[1];
  if (code === undefined) throw fault('bad-input', 'itch.io sent no code');
  const kept = kvGet('flow', VERIFIER);
  if (kept == null) throw fault('bad-input', 'this sign-in was not begun here: begin again');
  return request({
    grant_type: 'authorization_code',
    code,
    redirect_uri: redirectUri,
    code_verifier: new TextDecoder().decode(kept),
  });
}

export function renew({ refresh }) {
  if (refresh == null) throw fault('needs-reauth', 'there is no refresh token');
  return request({ grant_type: 'refresh_token', refresh_token: refresh });
}

function request(params) {
  const answer = postForm(TOKEN, { client_id: requiredSecret('CLIENT_ID'), ...params });
  const refused = refusal(answer);
  if (refused !== undefined) throw refused;
  return tokensOf(successful(answer));
}
