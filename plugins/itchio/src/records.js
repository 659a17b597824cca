// Owned keys as records.

import { fault } from './faults.js';

const OWNERSHIP = 'dev.games.actor.ownership';
/// Pages of a sync. The API names no number of pages, so this ends a sync of answers that never end.
const MAX_PAGES = 2000;

/// The page at the cursor. `read` reads a page of the API by its number.
export function page(cursor, read) {
  const number = cursor == null ? 1 : Number(cursor);
  if (!Number.isSafeInteger(number) || number < 1) throw fault('bad-input', 'the cursor is not one of this plugin');
  const answer = read(number);
  // An empty list is an object in this API.
  const keys = Array.isArray(answer.owned_keys) ? answer.owned_keys : [];
  const items = new Map();
  for (const key of keys) {
    const item = itemOf(key);
    if (item !== undefined) items.set(item.dedupKey, item);
  }
  const more = keys.length > 0 && keys.length >= answer.per_page && number < MAX_PAGES;
  return { items: [...items.values()], next: more ? String(number + 1) : undefined };
}

/// A game can be owned by several keys, so nothing of the key itself is in the record.
function itemOf(key) {
  const id = key?.game?.id ?? key?.game_id;
  if (!Number.isSafeInteger(id)) return undefined;
  const value = { $type: OWNERSHIP, platform: 'itchio', externalId: String(id) };
  if (typeof key.game?.title === 'string') value.title = key.game.title;
  if (typeof key.game?.url === 'string' && key.game.url.startsWith('https://')) value.url = key.game.url;
  // Several plugins write this collection, so the platform is part of the key.
  return { collection: OWNERSHIP, value: JSON.stringify(value), dedupKey: `itchio:${id}`, sign: true };
}
