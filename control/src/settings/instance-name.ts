/** What people see as the name of this installation. */
export const instanceName = (apiUrl: string): string => new URL(apiUrl).host;
