// Errors that the host understands. Users see their messages, so they hold no secrets.

/// An error with the value that the contract calls `fault`.
export class Fault extends Error {
  constructor(payload) {
    super(payload.message);
    this.payload = payload;
  }
}

export function fault(code, message, status) {
  return new Fault({ code, message, status, body: undefined, retryAfterMs: undefined });
}

/// The function with all its errors as faults: any other error would trap, and count against the plugin.
export function reporting(call) {
  return (...args) => {
    try {
      return call(...args);
    } catch (error) {
      // Faults of this plugin, and those of the host's functions.
      if (error?.payload) throw error;
      throw fault('internal', `the plugin failed: ${error?.message ?? error}`);
    }
  };
}
