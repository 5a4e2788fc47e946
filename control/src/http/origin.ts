/** Headers that tell where a browser's request comes from. */
export interface OriginHeaders {
  origin?: string | undefined;
  "sec-fetch-site"?: string | undefined;
}

const readMethods = new Set(["GET", "HEAD", "OPTIONS"]);

/**
 * Whether a request that is authenticated by a cookie may change something: it must come from a page of
 * our own. A page elsewhere can send forms, uploads included, along with the visitor's cookie, so nothing
 * but these headers tells them apart; a request without either is refused.
 */
export function comesFromOwnPage(method: string, headers: OriginHeaders, ownOrigin: string): boolean {
  if (readMethods.has(method)) return true;
  if (headers.origin !== undefined) return headers.origin === ownOrigin;
  return headers["sec-fetch-site"] === "same-origin";
}

/** Headers that matter here, of a request with `headers`; one that was sent twice counts as foreign. */
export const originHeaders = ({
  headers,
}: {
  headers: { origin?: string | undefined; [name: string]: string | string[] | undefined };
}): OriginHeaders => {
  const site = headers["sec-fetch-site"];
  return { origin: headers.origin, "sec-fetch-site": Array.isArray(site) ? "repeated" : site };
};
