/**
 * Every text of the interface, by page. In markup: `import { records as t } from '../texts'`.
 *
 * Texts are plain English in full sentences: what happened, and what to do next.
 */

export const app = {
  loading: 'Loading…',
  lost: 'The server does not answer. This page tries again until it does.',
  failed: 'The dashboard could not be loaded.',
  reload: 'Reload',
}

export const shell = {
  name: 'Belvedere',
  skip: 'Skip to the content',
  menu: 'Menu',
  closeMenu: 'Close the menu',
  search: 'Search',
  searchKey: 'Ctrl K',
  account: 'Your account',
  accountMenu: 'Account menu',
  logOut: 'Log out',
  superUser: 'Super user',
  navigation: 'Pages',
  messages: 'Messages',
  close: 'Close',
  loading: 'Loading…',
  lost: 'The server does not answer. This page tries again until it does.',
  notFound: 'There is no such page.',
  toOverview: 'Go to the overview',
  forbidden: (permissions: string) =>
    `You need the permission ${permissions} to see this page. The super user can grant it on the page Users.`,
  pageFailed: 'The page could not be loaded. The server may have been updated: reload to get the new version.',
  reload: 'Reload',
}

export const groups = {
  home: '',
  data: 'Data',
  scripting: 'Scripting',
  operations: 'Operations',
  access: 'Access',
  instance: 'Instance',
}

export const titles = {
  overview: 'Overview',
  start: 'First steps',
  records: 'Records',
  why: 'Why is a record missing?',
  collections: 'Collections',
  lexicons: 'Lexicons',
  lexicon: 'Lexicon',
  lexiconNew: 'Add a lexicon',
  events: 'Event log',
  statistics: 'Statistics',
  account: 'Your account',
}

export const common = {
  cancel: 'Cancel',
  save: 'Save',
  delete: 'Delete',
  close: 'Close',
  copy: 'Copy',
  copied: 'Copied',
  copyFailed: 'The browser does not allow to copy here. Select the text and copy it by hand.',
  copyOf: (what: string) => `Copy ${what}`,
  retry: 'Try again',
  reload: 'Reload',
  more: 'Load more',
  loading: 'Loading…',
  empty: 'Nothing here.',
  actions: 'Actions',
  yes: 'Yes',
  no: 'No',
  none: 'None',
  optional: 'optional',
  select: 'Select',
  selectAll: 'Select all',
  selected: (count: number) => `${count} selected`,
  missing: (permissions: string) => `You need the permission ${permissions}.`,
  never: 'never',
}

export const login = {
  title: (name: string) => `Log in to ${name}`,
  handle: 'Handle or DID',
  hint: 'The account that you have in the Atmosphere, such as alice.example.com. You type your password at your own server.',
  action: 'Continue',
  first: 'Claim this server',
  firstText:
    'This server has no users yet. The account that logs in first becomes its super user, with all permissions.',
  ended: 'Your session has ended. Log in again to return to where you were.',
  docs: 'On the command line, belvedere admin create-key --did DID makes an account a user too.',
  reasons: {
    not_authorized: 'Your account is not a user of this server. Ask its super user to add it on the page Users.',
    expired: 'The login took too long, or it began in another browser. Try again.',
    access_denied: 'The login was declined at your own server.',
    failed: 'Your own server did not complete the login. The log of this server has the reason.',
  } as Record<string, string>,
  otherReason: (code: string) => `The login ended with the error “${code}”.`,
}

export const errors = {
  unreachable: 'The server does not answer. Check that it runs; this page tries again by itself.',
  proxy: (status: number) => `The server's proxy answered with status ${status}. The server may be restarting.`,
  loggedOut: 'Your session has ended. Log in again.',
  permission: (name: string) => `You need the permission ${name}. The super user can grant it on the page Users.`,
  forbidden: 'You do not have the permission to do this.',
  tooMany: (seconds: number) => `Too many requests. Try again in ${seconds} s.`,
  internal: (id: string) => `The server has an internal problem. Its log has the details under ${id}.`,
  unknown: 'Something went wrong in this page. Reload it and try again.',
}

export const dialogs = {
  typeName: 'To confirm, type',
  irreversible: 'This can’t be undone.',
}

export const palette = {
  title: 'Command palette',
  placeholder: 'Go to a page, or paste an at:// URI, a DID or an NSID',
  none: 'Nothing found.',
  openRecord: (uri: string) => `Look up ${uri}`,
  openCollection: (nsid: string) => `Records of ${nsid}`,
  openLexicon: (nsid: string) => `Lexicon ${nsid}`,
  eventsOf: (subject: string) => `Event log of ${subject}`,
  keys: 'Keys',
  page: 'Page',
}

export const json = {
  title: 'JSON',
  copy: 'Copy JSON',
}

export const chart = {
  none: 'No values yet.',
  summary: (label: string, last: string, max: string) => `${label}: ${last} now, ${max} at most`,
}

export const editor = {
  label: 'Editor',
  hint: 'Press Escape, then Tab to leave the editor.',
}
