// Links itch.io accounts with OAuth 2.0, and writes the games that a user owns. Exports the interfaces of ../wit/world.wit:
// each object is one.

import { authorizeUrl, exchange, renew } from './oauth.js';
import { ownedKeys, profileOf } from './api.js';
import { page } from './records.js';
import { fault, reporting } from './faults.js';

export const describe = {
  // Must agree with manifest.json.
  get: () => ({
    id: 'itchio',
    name: 'itch.io',
    version: '1.0.0',
    auth: 'oauth2',
    secrets: [
      {
        name: 'CLIENT_ID',
        label: 'Client id',
        help: 'Of an OAuth application (https://itch.io/user/settings/oauth-apps)',
      },
    ],
    configSchema: undefined,
  }),
};

export const linking = {
  authorizeUrl: reporting((start) => authorizeUrl(start)),
  handleCallback: reporting((callback) => exchange(callback)),
  connect: reporting(() => {
    throw fault('unsupported', 'itch.io accounts are linked on a sign-in page');
  }),
  refresh: reporting((tokens) => renew(tokens)),
  getProfile: reporting((tokens) => profileOf(tokens.access)),
  revoke: reporting(() => {
    throw fault('unsupported', 'itch.io has no call that ends tokens: the user does so in the settings there');
  }),
};

export const sync = {
  pull: reporting((tokens, _config, cursor) => page(cursor, (number) => ownedKeys(tokens.access, number))),
};
