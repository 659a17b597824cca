// Requests to itch.io.

import { send } from 'belvedere:plugin/http@1.0.0';
import { get as secret } from 'belvedere:plugin/secrets@1.0.0';
import { fault } from './faults.js';
import { behindProxy, form } from './urls.js';

const TOO_MANY_REQUESTS = 429;

/// The URL, behind the proxy if the operator has set one: for tests, and for networks that leave through one.
export function serviceUrl(url) {
  const proxy = secret('PROXY_URL');
  return proxy == null ? url : behindProxy(proxy, url);
}

export function requiredSecret(name) {
  const value = secret(name);
  if (value == null) throw fault('internal', `the operator has not set the secret ${name}`);
  return value;
}

export function get(url, token) {
  return exchange('GET', url, [['authorization', `Bearer ${token}`]]);
}

export function postForm(url, params) {
  const body = new TextEncoder().encode(form(params));
  return exchange('POST', url, [['content-type', 'application/x-www-form-urlencoded']], body);
}

/// Sends a request. Returns the status and the JSON of the answer.
function exchange(method, url, headers, body) {
  const response = send({
    method,
    url: serviceUrl(url),
    headers: [['accept', 'application/json'], ...headers],
    body,
    timeoutMs: undefined,
    followRedirects: false,
  });
  return { status: response.status, json: parse(response.body) };
}

function parse(body) {
  try {
    return JSON.parse(new TextDecoder().decode(body));
  } catch {
    return undefined;
  }
}

/// The JSON of a successful answer.
export function successful({ status, json }) {
  if (status === 401 || status === 403) {
    throw fault('needs-reauth', 'itch.io no longer accepts this sign-in', status);
  }
  if (status === TOO_MANY_REQUESTS) throw fault('rate-limited', 'itch.io asks to wait', status);
  if (status < 200 || status > 299) throw fault('upstream', `itch.io answered with the status ${status}`, status);
  if (json === null || typeof json !== 'object') throw fault('upstream', "itch.io's answer can't be read");
  return json;
}
