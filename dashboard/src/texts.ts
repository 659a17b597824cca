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
  notFound: 'There is no such page',
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
  time: 'Time',
  none: 'No values yet.',
  summary: (label: string, last: string, max: string) => `${label}: ${last} now, ${max} at most`,
}

export const editor = {
  label: 'Editor',
  hint: 'Press Escape, then Tab to leave the editor.',
}

export const savedFilters = {
  label: 'Saved filters',
  choose: 'Choose…',
  save: 'Save filter',
  forget: 'Forget filter',
  title: 'Save this filter',
  name: 'Name',
  hint: 'It is kept in this browser. Saving with the name of another one replaces it.',
}

export const secrets = {
  copy: 'Copy',
  once: 'Copy it now: it is shown only once.',
}

export const overview = {
  version: (version: string) => `Version ${version}, started`,
  empty: 'Nothing is indexed yet',
  emptyText: 'Add a lexicon: its records are indexed from then on, and its methods can be called.',
  stream: 'Stream',
  states: {
    live: 'Live',
    behind: 'Behind',
    connecting: 'Connecting',
    disconnected: 'Disconnected',
    database_failing: 'Database fails',
    broken: 'Broken',
    idle: 'Idle',
  } as Record<string, string>,
  elsewhere: 'Another host of this instance follows the stream.',
  lag: 'Behind by',
  rate: 'Events',
  lastEvent: 'Last event',
  cursor: 'Indexed until',
  servers: 'Server',
  perSecond: (value: number) => `${Number(value.toPrecision(3))}/s`,
  gap: (from: string, to: string) =>
    `Events between ${from} and ${to} are missing: the stream server no longer had them.`,
  gapJob: 'A backfill reads them.',
  invalidOf: (invalid: string, collections: string) => `${invalid} invalid, in ${collections} collections`,
  requests: 'Requests',
  latency: (mean: string) => `${mean} on average`,
  deadLetters: 'Dead letters',
  deadLettersText: 'events whose script failed',
  jobs: 'Jobs',
  jobsFailed: (count: string) => `${count} failed in the last day`,
  labelers: 'Labelers connected',
  connected: (connected: string, active: string) => `${connected} of ${active}`,
  backfills: 'Backfills',
  repos: (done: string, all: string, records: string) => `${done} of ${all} repos, ${records} records`,
  progress: 'Progress',
  eventsOfDay: 'Events of the stream, last day',
  requestsOfDay: 'Requests by method, last day',
  errors: 'Recent errors',
  allErrors: 'All errors',
  noErrors: 'No errors.',
}

export const start = {
  text: 'From an empty server to the first answer of your application.',
  claimed: 'Claim the server',
  claimedText: (name: string) => `Done: ${name} is the super user. Add other people on the page Users.`,
  memberText: 'Done: this server has a super user, who has given you your permissions.',
  lexicon: 'Add a lexicon',
  lexiconText:
    'A record lexicon says which records are indexed; a query or procedure lexicon adds a method to the API.',
  lexiconDone: (count: number) => `Done: this server has ${count} ${count === 1 ? 'lexicon' : 'lexicons'}.`,
  fromNetwork: 'From the network',
  fromFile: 'Upload files',
}

export const checks = {
  title: 'Check the server',
  text: 'Looks at the configuration, the database and the services that the server needs.',
  again: 'Check again',
  running: 'Checking…',
  slow: 'Checking. This takes up to ten seconds.',
  good: 'All checks passed',
  bad: 'Some checks found problems',
  ok: 'OK',
  problem: 'Problem',
}

export const newKey = {
  title: 'Create an API key',
  text: 'For scripts and command lines that manage this server. The key has your permissions.',
  defaultName: 'First key',
  name: 'Name',
  create: 'Create key',
  key: 'API key',
  example: 'Try it',
  all: 'Manage API keys',
}

export const newClient = {
  title: 'Register an application',
  text: 'Every call of your methods names the application that makes it by a client key.',
  name: 'Name',
  url: 'URL',
  urlHint: 'Where its pages are. Its metadata is expected at /oauth-client-metadata.json below it.',
  urlBad: 'Enter a URL such as https://app.example.',
  type: 'Type',
  types: { public: 'In browsers or on phones', confidential: 'On a server' },
  typeHints: {
    public: 'It has no secret; calls from other origins than its own are refused.',
    confidential: 'It gets a secret, which stays on the server.',
  },
  create: 'Register',
  key: 'Client key',
  secret: 'Client secret',
  example: 'Try it',
  open: 'Open the application',
}

export const records = {
  text: 'What is indexed, newest first.',
  collection: 'Collection',
  validity: 'Validity',
  all: 'All',
  valid: 'Valid',
  invalid: 'Invalid',
  record: 'Record',
  content: 'Content',
  state: 'State',
  indexed: 'Indexed',
  updated: 'updated',
  uri: 'URI',
  repo: 'Repo',
  cid: 'CID',
  labels: 'Labels',
  labelOf: 'by',
  json: 'Record',
  lexicon: 'Lexicon',
  history: 'What happened to it',
  invalidBecause: (reason: string) => `The lexicon rejects this record, so queries leave it out: ${reason}`,
  noCollections: 'No collections are indexed',
  noCollectionsText: 'Add the lexicon of a record: the server then indexes all new records of its collection.',
  none: 'This collection has no records yet',
  noneText: 'New records appear when the stream delivers them. A backfill reads those that exist already.',
  noneFiltered: 'No records match the filter',
  showAll: 'Show all',
  backfill: 'Backfill the collection',
  delete: 'Delete from the index',
  deleteTitle: 'Delete this record from the index?',
  deleteText: (uri: string) =>
    `${uri} is removed from this server’s index. The repo keeps it, and a later change of it or a backfill indexes it again.`,
  deleted: 'The record was removed from the index.',
}

export const why = {
  text: 'Enter the URI of a record to see what this server knows about it.',
  uri: 'URI of the record',
  hint: 'Its repo, collection and key: at://did:plc:…/com.example.note/3k…',
  placeholder: 'at://',
  action: 'Look',
  asking: 'Looking. The record’s own server is asked too.',
  answer: 'Answer',
  advice: 'What to do:',
  outcomes: { ok: 'OK', problem: 'Problem', unknown: 'Unknown', info: 'Info' },
  open: 'Open',
  events: 'Events of this record',
}

export const collections = {
  text: 'Records by collection. A collection is indexed as long as its lexicon is here.',
  collection: 'Collection',
  records: 'Records',
  invalid: 'Invalid',
  untracked: 'Not indexed any more: its lexicon was deleted.',
  none: 'No collections are indexed',
  noneText: 'Add the lexicon of a record: the server then indexes all new records of its collection.',
  delete: 'Delete records',
  deleteTitle: 'Delete all records of a collection?',
  deleteText: (count: string, collection: string) =>
    `All ${count || 'records'} of ${collection} are removed from this server’s index. Their repos keep them; a backfill indexes them again.`,
  deleted: (count: string) => `${count} deleted.`,
}

export const lexicons = {
  text: 'Which records are indexed, and which methods can be called.',
  search: 'Search',
  nsid: 'NSID',
  type: 'Type',
  source: 'Source',
  sources: { manual: 'Uploaded', network: 'Network' } as Record<string, string>,
  target: 'Target collection',
  revision: 'Revision',
  updated: 'Updated',
  all: 'All',
  warning: 'Warning',
  none: 'No lexicons yet',
  noneText: 'Take one that is published on the network, or upload your own.',
  noneFound: 'No lexicons match the filter',
  showAll: 'Show all',
}

export const lexiconNew = {
  text: 'It applies to requests and to the stream at once.',
  fromNetwork: 'From the network',
  fromFile: 'Upload',
  networkText:
    'The server finds the publisher by DNS, takes the lexicon, and takes each newer version that is published.',
  nsid: 'NSID',
  nsidHint: 'The name of the lexicon.',
  resolve: 'Look it up',
  noType: 'no main definition',
  publisher: 'Publisher',
  document: 'Lexicon',
  target: 'Target collection',
  targetHint: 'The record collection that the method reads or writes, such as com.example.note.',
  backfill: 'Read the records that exist already (backfill)',
  add: 'Add lexicon',
  added: (nsid: string) => `${nsid} was added.`,
  addedWithBackfill: (nsid: string) => `${nsid} was added, and a backfill has started.`,
  files: 'Files',
  filesHint: 'One or more lexicons as JSON, each up to 1 MB. Without files, enter the document below.',
  notJson: (detail: string) => `This is not JSON: ${detail}`,
  noLexicon: 'This is no lexicon: it has no id.',
  tooLarge: 'The file is larger than 1 MB.',
  action: 'What the procedure does without a script',
  actionHint: 'A script of the method replaces it.',
  actions: {
    '': 'Update the record that the body names, else create one',
    create: 'Create a record',
    update: 'Update a record',
    delete: 'Delete a record',
  },
  cost: 'Token cost',
  costHint: 'Tokens that a call takes from the client’s bucket. Empty: the default.',
  preview: 'Preview',
  save: 'Save',
  saved: (count: number) => (count === 1 ? 'The lexicon was saved.' : `${count} lexicons were saved.`),
  useExample: 'Begin with an example',
  example: `{
  "lexicon": 1,
  "id": "com.example.note",
  "defs": {
    "main": {
      "type": "record",
      "key": "tid",
      "record": {
        "type": "object",
        "required": ["text", "createdAt"],
        "properties": {
          "text": { "type": "string", "maxLength": 3000 },
          "createdAt": { "type": "string", "format": "datetime" }
        }
      }
    }
  }
}
`,
  previewTitle: 'What saving changes',
  changes: { new: 'New', changed: 'Changed', unchanged: 'Unchanged', invalid: 'Invalid' },
  becomes: (from: number, to: number) => `Revision ${from} becomes ${to}.`,
  endsFollowing: 'This lexicon follows the network. Saving this document ends that.',
  absent: 'absent',
  moreDifferences: (count: number) => `${count} more differences.`,
  records: (checked: string, total: string, invalid: string, valid: string) =>
    `Of the newest ${checked} of ${total} records, ${invalid} become invalid and ${valid} become valid.`,
  startsBackfill: 'Saving starts a backfill of the collection.',
}

export const lexicon = {
  document: 'Document',
  edit: 'Edit',
  revisions: 'Revisions',
  services: 'Services',
  records: 'Records',
  script: 'Script',
  delete: 'Delete',
  deleteTitle: (id: string) => `Delete ${id}?`,
  deleteRecord: 'Its collection is no longer indexed from now on. Indexed records and scripts stay.',
  deleteMethod: 'The method stops working at once for all applications. Its scripts stay.',
  deleted: (id: string) => `${id} was deleted.`,
  fetched: 'fetched',
  cost: 'Token cost',
  defaultCost: 'Default',
  action: 'Without a script',
  revisionOf: (revision: number) => `Revision ${revision}`,
  current: 'Current',
  restore: 'Restore this revision',
  restoreTitle: (revision: number) => `Restore revision ${revision}?`,
  restoreText: (id: string) => `Its document becomes the newest revision of ${id}, and applies at once.`,
  restoreEnds: 'The lexicon no longer follows the network.',
  restored: (revision: number) => `Saved as revision ${revision}.`,
  saved: 'Saved',
  by: 'By',
  size: 'Size',
  servicesText: 'The services of this instance through which other servers may call the method with a service token.',
  service: 'Service',
  serviceType: 'Type',
  access: 'Access',
  accessModes: { all: 'All methods', allowlist: 'This method is listed', disabled: 'Disabled' } as Record<
    string,
    string
  >,
  noServices: 'No service offers this method',
  noServicesText: 'Add a service entry, or list the method in one.',
  serviceIdentity: 'Service identity',
}

export const events = {
  text: 'What happened on this server: by whom, when, and to what.',
  live: 'Live',
  connecting: 'Connecting…',
  paused: 'Paused',
  pause: 'Pause',
  resume: 'Follow live',
  severity: 'Severity',
  severities: { info: 'Info', warn: 'Warning', error: 'Error' },
  warnOrError: 'Warnings and errors',
  infoOrWarn: 'Info and warnings',
  all: 'All',
  category: 'Category',
  categories: [
    'account',
    'api_client',
    'api_key',
    'auth',
    'backfill',
    'dead_letter',
    'delegation',
    'domain',
    'dpop_key',
    'dpop_session',
    'event_logs',
    'external_account',
    'instance_key',
    'jetstream',
    'job',
    'labeler',
    'lexicon',
    'linked_repo',
    'network_lexicon',
    'plugin',
    'record',
    'script',
    'script_variable',
    'service_auth',
    'service_entry',
    'service_identity',
    'setting',
    'setup',
    'user',
    'verification_method',
  ],
  type: 'Event',
  subject: 'Subject',
  subjectHint: 'DID, URI, NSID or script',
  time: 'Time',
  actor: 'By',
  detail: 'Details',
  none: 'No events yet',
  noneText: 'Whatever happens on this server appears here at once.',
  noneFiltered: 'No events match the filter.',
  showAll: 'Show all',
  purge: 'Purge…',
  purgeText: 'Old events are removed in the background. They can’t be restored.',
  olderThan: 'Older than (days)',
  purgeAction: (days: number) => `Remove events older than ${days} days`,
  purging: 'A job removes the events.',
}

export const statistics = {
  text: 'The last seven days, in steps of five minutes.',
  span: 'Time span',
  spans: { hours: 'Six hours', day: 'One day', week: 'One week' },
  events: 'Events of the stream',
  lag: 'How far the stream is behind',
  requests: 'Requests by method',
  latency: 'Mean duration by method',
  errors: 'Failed requests by method',
  instructions: 'Instructions by script',
  apps: 'Which app uses most?',
  appsText: 'Requests by application.',
  methods: 'Which methods are called?',
  methodsText: 'Requests by method.',
  failing: 'Which scripts fail?',
  failingText: 'Failed runs by script.',
  other: 'others',
  labels: { '': 'All', '(none)': 'without a client key', '(unknown)': 'unknown methods' } as Record<string, string>,
  none: 'Nothing in this time.',
}

export const account = {
  handle: 'Handle',
  did: 'DID',
  permissions: 'Permissions',
  superUser: 'All: you are the super user.',
  sessions: 'Sessions',
  sessionsText: 'The applications and browsers that can act for you through this server.',
  kinds: {
    browser: 'Dashboard in a browser',
    linked_repo: 'Linked repo',
    service: 'Identity of this server',
    app: 'Application',
  } as Record<string, string>,
  app: 'Application',
  current: 'This browser',
  since: 'Since',
  used: 'Last used',
  end: 'End',
  endTitle: (name: string) => `End the session of ${name}?`,
  endCurrent: 'You are logged out of this dashboard.',
  endTexts: {
    app: 'The application is logged out and can’t write to your repo any more, until you log in to it again.',
    browser: 'That browser is logged out of the dashboard.',
    linked_repo: 'Scripts of this server can’t write to your repo any more, until you link it again.',
    service: 'This server can’t act as its account any more, until an operator authorizes it again.',
  } as Record<string, string>,
  ended: 'The session was ended.',
  accounts: 'Linked accounts',
  accountsText: 'Your accounts at other services, whose data plugins write into your repo.',
  account: 'Account',
  collections: 'Collections',
  lastSync: 'Last sync',
  statuses: { expired: 'Link it again', unlinking: 'Unlinking' } as Record<string, string>,
  link: (name: string) => `Link ${name}`,
  connect: 'Link account',
  linked: 'The account was linked.',
  linkFailed: (message: string) => `The account was not linked. ${message}`,
  sync: 'Sync',
  running: 'Syncing…',
  syncing: 'The sync goes on in the background.',
  synced: (count: number) => `The sync wrote ${count} ${count === 1 ? 'record' : 'records'}.`,
  unlink: 'Unlink',
  unlinkTitle: (name: string) => `Unlink ${name}?`,
  unlinkText: 'This server forgets the account and its tokens. Records in your repo stay.',
  unlinked: 'The account was unlinked.',
  noAccounts: 'You have linked no accounts.',
  noProviders: 'No plugin of this server links accounts.',
}
