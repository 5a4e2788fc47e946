/** Lines of apt's two formats that name a place of packages. */
const place = /^\s*(?:deb(?:\s+\[[^\]]*\])?|URIs:)\s+(https?:\/\/\S+)/gm;

function findPlace(sources: string, end: string): string | null {
  const places = [...sources.matchAll(place)].map(([, address = ""]) => address.replace(/\/$/, ""));
  return places.find((address) => address.endsWith(end)) ?? null;
}

/**
 * The mirror of Debian that the text of a machine's apt sources names first; null when it names none. Beside it there are
 * updates for security and other people's packages.
 */
export const mirrorIn = (sources: string): string | null => findPlace(sources, "/debian");

/** Where that machine has updates for security from; null when it names no place of their own. */
export const securityMirrorIn = (sources: string): string | null => findPlace(sources, "/debian-security");
