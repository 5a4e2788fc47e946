// @pure

/** The generation of a file that takes the place of those of `generations`, as text. */
export const generationAfter = (...generations: string[]): string =>
  (generations.map(BigInt).reduce((most, each) => (each > most ? each : most)) + 1n).toString();
