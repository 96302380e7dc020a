// Package schema holds what every part of pistate must agree on: the DDL and identity of its two
// databases, the verification of their shape, and the error codes that cross each boundary.
package schema
