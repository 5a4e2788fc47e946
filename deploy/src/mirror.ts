/** Lines of apt's two formats that name a place of packages. */
const place = /^\s*(?:deb(?:\s+\[[^\]]*\])?|URIs:)\s+(https?:\/\/\S+)/gm;

/** The mirror of Debian that the text of a machine's apt sources names first; null when it names none. */
export function mirrorIn(sources: string): string | null {
  const places = [...sources.matchAll(place)].map(([, address = ""]) => address.replace(/\/$/, ""));
  // Beside it there are updates for security and other people's packages.
  return places.find((address) => address.endsWith("/debian")) ?? null;
}
