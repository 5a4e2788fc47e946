/** Something in a database that a dump might lose. */
export interface Fixture {
  /** Makes it. Every name begins with the fixture's own, so that fixtures stand beside one another. */
  sql: string;
  /** Queries whose rows say whether all of it is there, besides those that look at every database. */
  also?: readonly string[];
}
