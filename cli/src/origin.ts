/** Whether `hostname` is a name for this machine itself; RFC 6761 reserves `localhost` and all names below it. */
export const isLocalName = (hostname: string): boolean => /^([^.]+\.)*localhost\.?$/i.test(hostname);

/** Whether traffic to `hostname` (as `URL.hostname` gives it) stays on this machine. */
export const isLoopback = (hostname: string): boolean =>
  isLocalName(hostname) || /^127(\.\d{1,3}){3}$/.test(hostname) || hostname === "[::1]";

/**
 * The origin of the API that a person named. A bare host means https. Plain http is refused unless it
 * stays on this machine, because every request carries the key.
 */
export function parseApiUrl(text: string): { url: string } | { problem: string } {
  const trimmed = text.trim();
  const url = URL.parse(/^[a-z][a-z0-9+.-]*:\/\//i.test(trimmed) ? trimmed : `https://${trimmed}`);
  if (url === null || url.hostname === "") return { problem: `"${text}" is not a URL` };
  if (url.protocol !== "https:" && url.protocol !== "http:") return { problem: "the API is reached over https" };
  if (url.username !== "" || url.password !== "") return { problem: "the URL of the API must not carry a password" };
  if (url.pathname !== "/" || url.search !== "" || url.hash !== "")
    return { problem: `the URL of the API is only scheme, host and port: ${url.origin}` };
  if (url.protocol === "http:" && !isLoopback(url.hostname))
    return { problem: `http would send the key in the clear; use https://${url.host}` };
  return { url: url.origin };
}

/** Whether two API origins are the same place. Names and addresses of this machine are alike. */
export function sameOrigin(left: string, right: string): boolean {
  const place = (text: string): string => {
    const url = new URL(text);
    return isLoopback(url.hostname) ? `${url.protocol}//loopback:${url.port}` : url.origin;
  };
  return place(left) === place(right);
}

/** `text` as a web address that may be given to a browser, in its escaped form; null for anything else. */
export function webUrl(text: string): string | null {
  const url = URL.parse(text);
  if (url === null || (url.protocol !== "https:" && url.protocol !== "http:")) return null;
  return url.username === "" && url.password === "" ? url.href : null;
}
