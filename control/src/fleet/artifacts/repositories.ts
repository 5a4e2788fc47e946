// @pure
export const repositories = {
  source: (projectId: string) => `${projectPrefix}${projectId}/source`,
  image: (projectId: string) => `${projectPrefix}${projectId}/app`,
  screenshot: (projectId: string) => `${projectPrefix}${projectId}/screenshot`,
  backup: (projectId: string) => `${projectPrefix}${projectId}/backup`,
  bundle: (projectId: string) => `${projectPrefix}${projectId}/bundle`,
} as const;

/** Repositories of projects. */
export const projectPrefix = "svc/";
