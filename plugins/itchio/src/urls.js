// Percent-encoding of queries and forms.

/// Encodes everything but letters, digits and -._~ (RFC 3986 §2.3).
function encode(text) {
  return encodeURIComponent(text).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
}

/// `a=1&b=2`, for a query or for the body of a form.
export function form(params) {
  return Object.entries(params).map(([key, value]) => `${encode(key)}=${encode(value)}`).join('&');
}

/// `https://host/path` as `PROXY/host/path`.
export function behindProxy(proxy, url) {
  return `${proxy.replace(/\/$/, '')}/${url.replace(/^https:\/\//, '')}`;
}
