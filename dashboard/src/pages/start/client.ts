/** The body that registers an application whose pages are at a URL, with the usual paths of an OAuth client. */
export function clientOf(name: string, url: string, type: 'public' | 'confidential') {
  const base = url.trim().replace(/\/+$/, '')
  return {
    name: name.trim(),
    client_uri: base,
    client_id_url: `${base}/oauth-client-metadata.json`,
    redirect_uris: [`${base}/oauth/callback`],
    client_type: type,
    ...(type === 'public' && { allowed_origins: [new URL(base).origin] }),
  }
}

/** Whether a text is the URL of a page: `https://app.example`. */
export function isPage(text: string): boolean {
  try {
    const url = new URL(text.trim())
    return ['https:', 'http:'].includes(url.protocol) && url.search === '' && url.hash === ''
  } catch {
    return false
  }
}
