# Builds the probes, each from the C files that its line names (without .c):
#   make probes        everything: build/probes/<target or native or sanitized or tsan>/<probe>
#   make probes-tests  what `make pytest` needs of it
# Static binaries for devices come from zig (in the lock of Python packages); the others from $(CC).

COMMON := clock complain crc json opts procfs record utf8
LISTING := encryption extmap_tasks extmap_tree filemap inodes mounts packages

extmap := extmap $(COMMON) $(LISTING)
iotrace := iotrace android btf calls command comms descriptors devmapper drain dynprobes files json listing output presets \
  recording ringbuffer running salvage session topology tracedat tracefs $(COMMON) $(LISTING)

iobench := bench_cache bench_checks bench_crew bench_direct bench_file bench_file_run bench_files bench_fio bench_jobs \
  bench_json bench_json_iobench bench_layout bench_logs bench_meter bench_mobibench bench_modes bench_names \
  bench_options bench_order bench_payload bench_plan bench_postmark bench_postmark_files bench_postmark_load \
  bench_postmark_pool bench_print bench_print_sweep bench_record bench_record_run bench_results bench_spawn \
  bench_sqlite bench_sqlite_check bench_sqlite_checkpoint bench_sqlite_connection bench_sqlite_fill bench_sqlite_kept \
  bench_sqlite_keys bench_sqlite_load bench_sqlite_plan bench_sqlite_values bench_sqlite_verify bench_statistics \
  bench_stop bench_storage bench_summary bench_sweep bench_validity bench_witness bench_words bench_worker devmapper \
  file_mmap file_psync file_ring file_uring files hist iobench mounts rng shell sqlite_library topology words $(COMMON)

ioreplay := bench_cache bench_payload files ioreplay jsonread mounts recordread replay_beneath replay_calls replay_check \
  replay_compare replay_descriptors replay_empty replay_flags replay_mappings replay_moves replay_names replay_order \
  replay_paths replay_plan replay_populate replay_print replay_program replay_record replay_run replay_sandbox \
  replay_stop replay_tally replay_target replay_transfer rng sha256 words $(COMMON)

procmon := command files procmon procmon_processes procmon_run procmon_series procmon_tables procmon_text \
  procmon_values $(COMMON) $(LISTING)

PROBES := extmap iobench ioreplay iotrace procmon
PROBES_THREADED := iobench ioreplay

test_filemap := $(COMMON) $(LISTING)
test_hist := hist
test_inodes := $(COMMON) $(LISTING)
test_jsonread := files jsonread $(COMMON)
test_modes := bench_modes $(COMMON)
test_opts := $(COMMON)
test_order := bench_order rng
test_packages := $(COMMON) $(LISTING)
test_payload := bench_payload rng
test_record := $(COMMON)
test_procmon_tables := files procmon_series procmon_tables procmon_text $(COMMON) $(LISTING)
test_procmon_text := procmon_text
test_procmon_values := files procmon_series procmon_text procmon_values $(COMMON) $(LISTING)
test_recordread := files jsonread recordread sha256 $(COMMON)
test_replay_descriptors := replay_descriptors
test_replay_run := bench_cache bench_payload files mounts replay_beneath replay_calls replay_compare replay_descriptors \
  replay_empty replay_flags replay_mappings replay_moves replay_names replay_order replay_paths replay_populate \
  replay_run replay_sandbox replay_stop replay_tally replay_target replay_transfer rng $(COMMON)
test_results := bench_cache bench_fio bench_json bench_json_iobench bench_logs bench_mobibench bench_modes bench_names \
  bench_print bench_print_sweep bench_record bench_record_run bench_results bench_statistics bench_summary bench_words \
  files hist shell words $(COMMON)
test_rng := rng
test_sandbox := bench_cache bench_payload files mounts replay_beneath replay_empty replay_paths replay_populate \
  replay_sandbox rng $(COMMON)
test_sha256 := sha256
test_shell := shell
test_sqlite := bench_order bench_sqlite_keys bench_sqlite_plan bench_sqlite_values rng
test_utf8 := utf8
test_witness := bench_witness
test_worker := bench_meter bench_worker files hist $(COMMON)

PROBES_TESTED := $(patsubst probes/tests/%.c,%,$(wildcard probes/tests/test_*.c))

TARGETS := aarch64-linux-musl x86_64-linux-musl arm-linux-musleabihf
# Run by tests: under qemu-user and in guests. The remaining target costs a minute when its libc is not yet built.
TARGETS_TESTED := aarch64-linux-musl x86_64-linux-musl

PROBES_OUT := build/probes
PROBES_CFLAGS := -std=c11 -D_FILE_OFFSET_BITS=64 -Wall -Wextra -Werror -MMD -MP
SANITIZERS := -fsanitize=address,undefined -fno-sanitize-recover=all

ZIG_CC := ZIG_LOCAL_CACHE_DIR=build/zig ZIG_GLOBAL_CACHE_DIR=build/zig $(BIN)/python -m ziglang cc

.PHONY: probes probes-tests
probes: $(foreach variant,$(TARGETS) native sanitized,$(PROBES:%=$(PROBES_OUT)/$(variant)/%)) probes-tests
probes-tests: $(foreach variant,$(TARGETS_TESTED) native sanitized,$(PROBES:%=$(PROBES_OUT)/$(variant)/%)) \
  $(PROBES_THREADED:%=$(PROBES_OUT)/tsan/%) $(PROBES_TESTED:%=$(PROBES_OUT)/sanitized/%)

define newline


endef

include probes/sqlite.mk

# $(call linked,VARIANT,COMPILER AND FLAGS,WHAT BRINGS THE COMPILER,VARIANT WHOSE SQLITE,PROBES): how the programs of
# one variant are made.
define linked
$(PROBES_OUT)/$(1)/obj/%.o: probes/%.c probes/probes.mk | $(3)
	@mkdir -p $$(@D)
	@echo '$(1): $$<'
	@$(2) $(PROBES_CFLAGS) -I$(SQLITE) -c $$< -o $$@

$(foreach file,$(iobench),$(PROBES_OUT)/$(1)/obj/$(file).o): | $(SQLITE)/sqlite3.c
$(foreach probe,$(5),$(PROBES_OUT)/$(1)/$(probe): $($(probe):%=$(PROBES_OUT)/$(1)/obj/%.o)$(newline))
$(PROBES_OUT)/$(1)/iobench: $(PROBES_OUT)/$(4)/obj/sqlite3.o
$(PROBES_OUT)/$(1)/iobench: LIBRARIES := -pthread -ldl -lm
$(PROBES_OUT)/$(1)/ioreplay: LIBRARIES := -pthread
$(5:%=$(PROBES_OUT)/$(1)/%):
	@echo '$$@'
	@$(2) $$^ $$(LIBRARIES) -o $$@
endef

# SQLite is the library under the probes' tests, not what they test: they are checked, it is not, which would cost a
# minute for each kind of check.
$(foreach target,$(TARGETS), \
  $(eval $(call linked,$(target),$(ZIG_CC) -target $(target) -O2 -static -s,setup,$(target),$(PROBES))))
$(eval $(call linked,native,$(CC) -O2,build/.compiler,native,$(PROBES)))
$(eval $(call linked,sanitized,$(CC) -O1 -g -fno-omit-frame-pointer $(SANITIZERS),build/.compiler,native,$(PROBES)))
$(eval $(call linked,tsan,$(CC) -O1 -g -fsanitize=thread,build/.compiler,native,$(PROBES)))

include probes/bionic.mk

$(foreach test,$(PROBES_TESTED),$(eval $(PROBES_OUT)/sanitized/$(test): \
  $(patsubst %,$(PROBES_OUT)/sanitized/obj/%.o,tests/$(test) $($(test)))))
$(PROBES_TESTED:%=$(PROBES_OUT)/sanitized/%):
	@echo '$@'
	@$(CC) $(SANITIZERS) $^ -o $@

-include $(wildcard $(PROBES_OUT)/*/obj/*.d $(PROBES_OUT)/*/obj/*/*.d)
