// The answer of the token endpoint.

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
