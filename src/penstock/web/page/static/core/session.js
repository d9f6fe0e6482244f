// Who uses this page: the token, and the role that the server says it has.
// The token is in memory, and in the session storage of this tab where the user asked for that. Never in a cookie or an
// address.

const KEY = "penstock.token";
const ROLES = ["read", "operate", "admin"];

export class Session {
  constructor() {
    this.token = null;
    this.isKept = false;
    this.name = null;
    this.role = null;
    /** Why signing in is asked for; null: it is not. */
    this.wants = null;
    this.listeners = new Set();
    try {
      this.token = sessionStorage.getItem(KEY);
      this.isKept = this.token !== null;
    } catch {
      // Storage is off: memory alone.
    }
  }

  get isSignedIn() {
    return this.token !== null;
  }

  may(role) {
    return this.role !== null && ROLES.indexOf(this.role) >= ROLES.indexOf(role);
  }

  signIn(token, isKept) {
    this.token = token;
    this.isKept = isKept;
    // What it may do is asked for anew.
    this.name = null;
    this.role = null;
    this.#store();
    this.wants = null;
    this.#told();
  }

  signOut(wants = null) {
    this.token = null;
    this.name = null;
    this.role = null;
    this.#store();
    this.wants = wants;
    this.#told();
  }

  /** What GET /caller answered. */
  is({ name, role }) {
    if (this.name === name && this.role === role && this.wants === null) return;
    this.name = name;
    this.role = role;
    this.wants = null;
    this.#told();
  }

  #store() {
    try {
      if (this.token !== null && this.isKept) sessionStorage.setItem(KEY, this.token);
      else sessionStorage.removeItem(KEY);
    } catch {
      // As above.
    }
  }

  #told() {
    for (const listener of this.listeners) listener();
  }
}
