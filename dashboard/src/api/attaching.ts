/** The login with an account that is being attached, which leaves this page and returns to it. */
export const attaching = {
  /** Where a tab keeps who began it. */
  key: 'belvedere.attach',
  /** Why it failed, if it did before this page was loaded. */
  failure: null as unknown,
}
