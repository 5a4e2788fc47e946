// @pure
/** The name that a build gives its image until it is known by digest, and under which it pushes what it made. */
export const buildTag = (repository: string, placementId: string): string => `${repository}:${placementId}`;
