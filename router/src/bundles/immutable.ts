// @pure
const extension = "(?:\\.[a-z0-9]+){1,2}$";

/** Directories in which build tools put nothing but files named after their content. */
const contentNamed = ["^/(?:_astro|_next/static|_nuxt|_app/immutable)/"];
const buildDirectory = "^/(?:assets|static|build|chunks|js|css|media)/.*";

/**
 * Names that carry a hash of the content, each as patterns that must all match. Words and dates must not
 * pass: a file kept for a year under a name that comes again is worse than one asked for again. So a
 * hexadecimal hash needs a digit and a letter, one of eight base64 characters a capital that does not
 * begin it and something that is no letter.
 */
const hashedName = [
  [
    `${buildDirectory}[.-][0-9a-f]{8,64}${extension}`,
    `[0-9][0-9a-f]{0,63}${extension}`,
    `[a-f][0-9a-f]{0,63}${extension}`,
  ],
  [
    `${buildDirectory}[.-][A-Za-z0-9_-]{8}${extension}`,
    `[A-Z][A-Za-z0-9_-]{0,6}${extension}`,
    `[0-9_-][A-Za-z0-9_-]{0,7}${extension}`,
  ],
];

const immutableNames = [contentNamed, ...hashedName].map((patterns) => patterns.map((pattern) => new RegExp(pattern)));

/** What is served in the place of a file to those who understand it. */
const compressed = /\.(?:br|gz)$/;

/** Whether the file at `path` of a bundle, such as /assets/index-BxK2a9_f.js, can never be another one. */
export function isImmutable(path: string): boolean {
  const plain = path.replace(compressed, "");
  return immutableNames.some((patterns) => patterns.every((pattern) => pattern.test(plain)));
}
