/* Configs side by side: what differs, times by owner, memory. */
#ifndef SC_REPORT_COMPARE_REPORT_H
#define SC_REPORT_COMPARE_REPORT_H

#include "report/forms.h"
#include "study/compare/compare.h"

extern const struct sc_forms sc_compare_forms; /* of a struct sc_compare */

#endif
