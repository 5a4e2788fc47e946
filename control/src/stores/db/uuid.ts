// @pure
/** How ids are written; Postgres refuses a statement with anything else in the place of one. */
export const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
