// @pure
/**
 * Files of a static site that are served under a path, or to which it moves: as render/static-routes.ts looks them up.
 * None for a path that no file can have.
 *
 * @param path as it was sent, without query
 */
export function fileNamesOf(path: string): string[] {
  let decoded: string;
  try {
    decoded = decodeURIComponent(path);
  } catch {
    return [];
  }
  const segments = decoded.split("/").filter((segment) => segment !== "" && segment !== ".");
  if (segments.includes("..") || decoded.includes("\0")) return [];
  const name = segments.join("/");
  return name === "" ? ["index.html"] : [name, `${name}.html`, `${name}/index.html`];
}
