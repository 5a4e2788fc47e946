// @pure
export const repositories = {
  source: (projectId: string) => `${projectPrefix}${projectId}/source`,
  image: (projectId: string) => `${projectPrefix}${projectId}/app`,
  bundle: (projectId: string) => `${projectPrefix}${projectId}/bundle`,
} as const;

/** Repositories of projects. */
export const projectPrefix = "svc/";
