export const cookiePrefix = (apiUrl: string) => (isSecure(apiUrl) ? "__Host-svc" : "svc");

/** The cookie that holds a signed session token. */
export const signInCookieName = (apiUrl: string): string => `${cookiePrefix(apiUrl)}.session_token`;

/**
 * Whether cookies may only travel over TLS. Their name then starts with "__Host-", which makes browsers
 * refuse them from a tenant's sibling host.
 */
export const isSecure = (apiUrl: string) => apiUrl.startsWith("https:");
