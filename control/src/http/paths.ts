export const apiPrefix = "/api/v1";

/** Where better-auth answers, below the API's origin. */
export const authBasePath = "/api/auth";
