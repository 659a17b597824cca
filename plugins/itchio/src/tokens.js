// The answers of the token endpoint.

import { fault } from './faults.js';

/// itch.io writes the names of RFC 6749 §5.1, and in some places camelCase.
export function tokensOf(json) {
  const access = json.access_token ?? json.accessToken;
  if (typeof access !== 'string' || access === '') throw fault('upstream', 'itch.io sent no token');
  const seconds = json.expires_in ?? json.expiresIn;
  return {
    access,
    refresh: json.refresh_token ?? json.refreshToken ?? undefined,
    tokenType: 'Bearer',
    scope: undefined,
    expiry: Number.isSafeInteger(seconds) && seconds > 0
      ? { tag: 'in-seconds', val: Math.min(seconds, 0xffffffff) }
      : { tag: 'never' },
  };
}

/// The fault of a refused request (RFC 6749 §5.2); `undefined` for other answers. Only a grant that is not accepted any more is
/// something that the user can repair, by signing in again.
export function refusal({ status, json }) {
  if (![400, 401, 403].includes(status)) return undefined;
  switch (json?.error) {
    case 'invalid_grant':
      return fault('needs-reauth', 'itch.io does not accept this sign-in', status);
    case 'invalid_client':
      return fault('internal', 'itch.io does not know the application: the operator has to check the secret CLIENT_ID', status);
    default:
      return fault('upstream', `itch.io refused the tokens with the status ${status}`, status);
  }
}
