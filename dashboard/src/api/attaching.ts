/** Where a tab keeps who began to attach an account, while the login with that account is under way. */
export const ATTACHING = 'belvedere.attach'
