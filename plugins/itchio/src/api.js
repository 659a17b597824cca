// The API of itch.io.

import { fault } from './faults.js';
import { get, successful } from './http.js';

const PROFILE = 'https://api.itch.io/profile';
const OWNED_KEYS = 'https://api.itch.io/profile/owned-keys';

export function profileOf(token) {
  const { user } = successful(get(PROFILE, token));
  if (!Number.isSafeInteger(user?.id)) throw fault('upstream', 'itch.io named no account');
  const text = (value) => (typeof value === 'string' && value !== '' ? value : undefined);
  const url = (value) => (text(value)?.startsWith('https://') ? value : undefined);
  return {
    accountId: String(user.id),
    displayName: text(user.display_name) ?? text(user.username),
    profileUrl: url(user.url),
    avatarUrl: url(user.cover_url),
  };
}

/// A page of the keys that the user owns; the first is 1.
export function ownedKeys(token, number) {
  return successful(get(`${OWNED_KEYS}?page=${number}`, token));
}
