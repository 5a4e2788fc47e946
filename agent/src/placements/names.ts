/** The name of the container of a placement. */
export const containerName = (placementId: string): string => `svc-p-${placementId}`;
