/** Where sign-in may lead: pages of ours that need it, spelled out, so that no address is ever built from what a link says. */
const devicePage = /^\/device(\?user_code=[A-Za-z0-9-]{1,20})?$/;

/** `next` if it is one of our pages, else the home page. */
export const safeNext = (next: string | undefined): string =>
  next !== undefined && devicePage.test(next) ? next : "/";
