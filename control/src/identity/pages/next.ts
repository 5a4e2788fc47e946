/** Where sign-in may lead: pages of ours that need it, spelled out, so that no address is ever built from what a link says. */
const devicePage = /^\/device(\?user_code=[A-Za-z0-9-]{1,20})?$/;
const verifyPage = /^\/verify-email\?token=[\w-]{1,200}\.[\w-]{1,1000}\.[\w-]{1,200}$/;

/** `next` if it is one of our pages, else the home page. */
export const safeNext = (next: string | undefined): string =>
  next !== undefined && (devicePage.test(next) || verifyPage.test(next)) ? next : "/";

/** What signing in is good for when it leads to `next`, a page of ours; null for the home page. */
export function purposeOf(next: string): string | null {
  if (next === "/") return null;
  return verifyPage.test(next)
    ? "Sign in to confirm your email address."
    : "Sign in to confirm the login of your command line.";
}
